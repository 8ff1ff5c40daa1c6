// Leaves a mark wherever it is preloaded.
#include <fcntl.h>
#include <unistd.h>

__attribute__((constructor)) static void preloaded(void) {
    static const char said[] = "codebox-hostile: evil.so was preloaded\n";
    int canary = open("/canary", O_WRONLY | O_CREAT | O_APPEND, 0666);
    if (canary >= 0) {
        (void)!write(canary, said, sizeof said - 1);
        close(canary);
    }
    (void)!write(2, said, sizeof said - 1);
}
