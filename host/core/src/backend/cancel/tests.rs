use std::sync::atomic::AtomicUsize;
use std::thread;

use super::*;

#[derive(Default)]
struct Counter(AtomicUsize);

impl std::task::Wake for Counter {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}

fn poll(future: &mut Cancelled, counter: &Arc<Counter>) -> Poll<()> {
    let waker = Waker::from(Arc::clone(counter));
    Pin::new(future).poll(&mut Context::from_waker(&waker))
}

#[test]
fn wakes_whoever_waits_and_forgets_whoever_left() {
    let token = CancelToken::new();
    let (stays, leaves) = (Arc::new(Counter::default()), Arc::new(Counter::default()));
    let mut waiting = token.cancelled();
    assert_eq!(poll(&mut waiting, &stays), Poll::Pending);
    assert_eq!(poll(&mut waiting, &stays), Poll::Pending);
    let mut gone = token.clone().cancelled();
    assert_eq!(poll(&mut gone, &leaves), Poll::Pending);
    drop(gone);
    assert_eq!(token.0.lock().by_id.len(), 1);
    token.cancel();
    token.cancel();
    assert_eq!((stays.0.load(Ordering::SeqCst), leaves.0.load(Ordering::SeqCst)), (1, 0));
    assert_eq!(poll(&mut waiting, &stays), Poll::Ready(()));
    assert_eq!(poll(&mut token.cancelled(), &stays), Poll::Ready(()));
}

#[test]
fn calls_back_once_or_not_at_all() {
    let token = CancelToken::new();
    let calls = Arc::new(AtomicUsize::new(0));
    let count = || {
        let (calls, token) = (Arc::clone(&calls), token.clone());
        move || {
            assert!(token.is_cancelled());
            calls.fetch_add(1, Ordering::SeqCst);
        }
    };
    let kept = token.on_cancel(count());
    drop(token.on_cancel(count()));
    token.cancel();
    assert_eq!(calls.load(Ordering::SeqCst), 1);
    let late = token.on_cancel(count());
    assert_eq!(calls.load(Ordering::SeqCst), 2);
    drop((kept, late));
}

#[test]
fn no_wait_starts_unseen() {
    for _ in 0..200 {
        let token = CancelToken::new();
        let other = token.clone();
        let thrower = thread::spawn(move || other.cancel());
        let counter = Arc::new(Counter::default());
        let mut waiting = token.cancelled();
        let first = poll(&mut waiting, &counter);
        thrower.join().expect("cancel does not panic");
        let woken = counter.0.load(Ordering::SeqCst) == 1;
        assert!(first.is_ready() != woken, "ready {first:?}, woken {woken}");
    }
}
