// The search of the site runs in a worker, and browsers start none for pages opened from disk.
// There it runs in a hidden frame, which has the same origin and the same message events.
if (location.protocol === "file:") {
  window.IFrameWorker = class extends EventTarget {
    constructor(url) {
      super();
      const frame = document.createElement("iframe");
      frame.hidden = true;
      document.body.append(frame);
      this.inner = frame.contentWindow;
      this.inner.postMessage = (data) => this.answer(data);
      this.waiting = [];
      const script = this.inner.document.createElement("script");
      script.src = url;
      script.onload = () => this.start();
      this.inner.document.body.append(script);
    }

    answer(data) {
      const event = new MessageEvent("message", { data });
      this.dispatchEvent(event);
      if (this.onmessage) this.onmessage(event);
    }

    start() {
      const sent = this.waiting;
      this.waiting = null;
      sent.forEach((data) => this.postMessage(data));
    }

    postMessage(data) {
      if (this.waiting) this.waiting.push(data);
      else this.inner.dispatchEvent(new this.inner.MessageEvent("message", { data }));
    }
  };
  window.Worker = window.IFrameWorker;
}
