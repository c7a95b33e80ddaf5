// Counter is a proxy before an S3 server. It counts requests and the bytes of bodies, makes the store as far away as a
// real one, and answers wrongly on demand.
//
//	counter -listen 127.0.0.1:17071 -store 127.0.0.1:17070 -control 127.0.0.1:17073 -latency 30ms -rate 52428800
//
// The control address is for the benchmark:
//
//	GET  /_counters   what was counted since the last reset, as JSON
//	GET  /_requests   each request since then, as a line of JSON
//	POST /_reset      sets all counters to zero
//	POST /_fault      adds a fault (see faults.go)
//	GET  /_faults     faults that are left
//	POST /_heal       removes all faults
//
// Requests reach the store as they came, signature included. Only the standard library is used.
package main

import (
	"context"
	"errors"
	"flag"
	"io"
	"log"
	"net"
	"net/http"
	"net/url"
	"sync"
	"time"
)

// Proxy forwards each request to the store and counts it.
type Proxy struct {
	store     string
	transport *http.Transport
	counts    *Counters
	faults    *Faults
	pace      *Pace
	buffers   sync.Pool
}

func newProxy(store string, pace *Pace) *Proxy {
	dialer := &net.Dialer{Timeout: 10 * time.Second}
	return &Proxy{
		store: store,
		transport: &http.Transport{
			DialContext:         dialer.DialContext,
			MaxIdleConnsPerHost: 256,
			DisableCompression:  true,
			ReadBufferSize:      1 << 16,
			WriteBufferSize:     1 << 16,
		},
		counts:  newCounters(),
		faults:  &Faults{},
		pace:    pace,
		buffers: sync.Pool{New: func() any { return new([1 << 17]byte) }},
	}
}

func (p *Proxy) ServeHTTP(writer http.ResponseWriter, request *http.Request) {
	seen := p.counts.begin(request)
	// In a deferred call, because an answer that is cut off ends in a panic.
	defer p.counts.end(seen)
	p.pace.answer(request.Context())
	fault := p.faults.take(request)
	if fault != nil {
		seen.Fault = fault.Kind
		if fault.refuse(writer, request, seen) {
			return
		}
	}
	answer, err := p.forward(request, seen)
	if err != nil {
		seen.Status = http.StatusBadGateway
		if !errors.Is(err, context.Canceled) {
			log.Printf("%s %s: %v", request.Method, request.URL, err)
		}
		http.Error(writer, err.Error(), http.StatusBadGateway)
		return
	}
	defer answer.Body.Close()
	seen.Status = answer.StatusCode
	length := answer.ContentLength
	if fault != nil {
		length = fault.length(answer)
	}
	for name, values := range answer.Header {
		writer.Header()[name] = values
	}
	writer.Header().Del("Connection") // is about the connection to the store
	writer.WriteHeader(answer.StatusCode)
	if request.Method == http.MethodHead {
		return
	}
	p.send(writer, request, answer, seen, fault, length)
}

// forward sends the request on. Its path is taken as it was written, since the client signed that.
func (p *Proxy) forward(request *http.Request, seen *Request) (*http.Response, error) {
	out := request.Clone(request.Context())
	out.URL = &url.URL{Scheme: "http", Host: p.store, Path: request.URL.Path, RawPath: request.URL.RawPath, RawQuery: request.URL.RawQuery}
	out.RequestURI = ""
	if request.ContentLength != 0 {
		out.Body = &countedBody{request.Body, seen}
	}
	if out.Header.Get("User-Agent") == "" {
		out.Header.Set("User-Agent", "") // or Go sends its own
	}
	return p.transport.RoundTrip(out)
}

// send copies the body, at most `length` bytes of it if that is known.
func (p *Proxy) send(writer http.ResponseWriter, request *http.Request, answer *http.Response, seen *Request, fault *Fault, length int64) {
	buffer := p.buffers.Get().(*[1 << 17]byte)
	defer p.buffers.Put(buffer)
	for {
		part := buffer[:]
		if length >= 0 {
			part = part[:min(int64(len(part)), length-seen.Bytes)]
		}
		if fault != nil {
			part = fault.before(writer, request, seen, part)
		}
		if len(part) == 0 {
			if fault != nil {
				fault.pad(writer, seen)
			}
			return
		}
		read, err := answer.Body.Read(part)
		p.pace.bytes(request.Context(), read)
		written, failed := writer.Write(part[:read])
		seen.Bytes += int64(written)
		if failed != nil {
			return // The client is gone.
		}
		if err == io.EOF && (length < 0 || seen.Bytes == length) {
			length = seen.Bytes // The next part is empty.
		} else if err != nil {
			panic(http.ErrAbortHandler)
		}
	}
}

// countedBody counts what a client uploads.
type countedBody struct {
	io.ReadCloser
	seen *Request
}

func (b *countedBody) Read(into []byte) (int, error) {
	read, err := b.ReadCloser.Read(into)
	b.seen.Received += int64(read)
	return read, err
}

func main() {
	listen := flag.String("listen", "127.0.0.1:17071", "address for clients of the store")
	store := flag.String("store", "127.0.0.1:17070", "address of the store")
	control := flag.String("control", "127.0.0.1:17073", "address for counters and faults")
	latency := flag.Duration("latency", 0, "how much later each answer begins")
	rate := flag.Int64("rate", 0, "bytes a second on each connection; 0 means unlimited")
	flag.Parse()
	proxy := newProxy(*store, &Pace{latency: *latency, rate: *rate})
	go func() { log.Fatal(http.ListenAndServe(*control, controls(proxy))) }()
	server := &http.Server{Addr: *listen, Handler: proxy, ConnContext: withLane}
	log.Fatal(server.ListenAndServe())
}
