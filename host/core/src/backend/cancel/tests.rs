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
fn wakes_waiting_futures_and_unregisters_dropped_ones() {
    let token = CancelToken::new();
    let (waiting_counter, dropped_counter) = (Arc::new(Counter::default()), Arc::new(Counter::default()));
    let mut waiting = token.cancelled();
    assert_eq!(poll(&mut waiting, &waiting_counter), Poll::Pending);
    assert_eq!(poll(&mut waiting, &waiting_counter), Poll::Pending);
    let mut dropped = token.clone().cancelled();
    assert_eq!(poll(&mut dropped, &dropped_counter), Poll::Pending);
    drop(dropped);
    assert_eq!(token.0.lock().by_id.len(), 1);
    token.cancel();
    token.cancel();
    assert_eq!((waiting_counter.0.load(Ordering::SeqCst), dropped_counter.0.load(Ordering::SeqCst)), (1, 0));
    assert_eq!(poll(&mut waiting, &waiting_counter), Poll::Ready(()));
    assert_eq!(poll(&mut token.cancelled(), &waiting_counter), Poll::Ready(()));
}

#[test]
fn runs_callback_at_most_once() {
    let token = CancelToken::new();
    let calls = Arc::new(AtomicUsize::new(0));
    let count = || {
        let (calls, token) = (Arc::clone(&calls), token.clone());
        move || {
            assert!(token.is_cancelled());
            calls.fetch_add(1, Ordering::SeqCst);
        }
    };
    let registered = token.on_cancel(count());
    drop(token.on_cancel(count()));
    token.cancel();
    assert_eq!(calls.load(Ordering::SeqCst), 1);
    let late = token.on_cancel(count());
    assert_eq!(calls.load(Ordering::SeqCst), 2);
    drop((registered, late));
}

#[test]
fn wakes_future_polled_during_cancel() {
    for _ in 0..200 {
        let token = CancelToken::new();
        let other = token.clone();
        let canceller = thread::spawn(move || other.cancel());
        let counter = Arc::new(Counter::default());
        let mut waiting = token.cancelled();
        let first = poll(&mut waiting, &counter);
        canceller.join().expect("cancel does not panic");
        let woken = counter.0.load(Ordering::SeqCst) == 1;
        assert!(first.is_ready() != woken, "ready {first:?}, woken {woken}");
    }
}
