import os, threading
try:
    import ssl
except ImportError: pass
def f(): threading.Thread(target=f).start()
f()
