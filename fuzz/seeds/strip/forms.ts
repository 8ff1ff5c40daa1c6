export{a,b};
enum A { B = 1 }
namespace N { export const x: number = 1 }
class P { constructor(private readonly x: T) {} }
