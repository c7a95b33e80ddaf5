package main

import (
	"encoding/json"
	"net/http"
	"strings"
	"sync"
	"time"
)

// Request is one request and what was answered to it.
type Request struct {
	Operation string  `json:"operation"` // LIST, or the HTTP method
	Key       string  `json:"key"`       // bucket and object; for LIST, bucket and prefix
	Range     string  `json:"range,omitempty"`
	Status    int     `json:"status"`
	Bytes     int64   `json:"bytes"`              // of the body that was sent to the client
	Received  int64   `json:"received,omitempty"` // of the body that the client sent
	BeganMs   float64 `json:"began_ms"`           // since the last reset
	TookMs    float64 `json:"took_ms"`
	Fault     string  `json:"fault,omitempty"`
	began     time.Time
	epoch     int
}

// maxRequests bounds the list of single requests; counters go on beyond it.
const maxRequests = 200_000

// Totals of one operation, or of one object.
type Totals struct {
	Requests int64 `json:"requests"`
	Bytes    int64 `json:"bytes"`
	Received int64 `json:"received"`
}

func (t *Totals) add(request *Request) {
	t.Requests++
	t.Bytes += request.Bytes
	t.Received += request.Received
}

// Counters of all requests that began since the last reset.
type Counters struct {
	mutex    sync.Mutex
	epoch    int
	since    time.Time
	open     int // requests that have begun and not ended, of any epoch
	mostOpen int
	totals   map[string]*Totals  // by operation
	keys     map[string]*Totals  // GET by key
	ranges   map[[2]string]int64 // GET by key and range
	statuses map[int]int64
	requests []*Request
}

func newCounters() *Counters {
	counters := &Counters{}
	counters.reset()
	return counters
}

func (c *Counters) reset() {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	c.epoch++
	c.since = time.Now()
	c.mostOpen = c.open
	c.totals, c.keys = map[string]*Totals{}, map[string]*Totals{}
	c.ranges, c.statuses = map[[2]string]int64{}, map[int]int64{}
	c.requests = nil
}

func (c *Counters) begin(request *http.Request) *Request {
	seen := &Request{Operation: request.Method, Key: request.URL.Path, Range: request.Header.Get("Range"), began: time.Now()}
	query := request.URL.Query()
	bucketOnly := strings.Count(strings.Trim(request.URL.Path, "/"), "/") == 0
	if request.Method == http.MethodGet && (query.Has("list-type") || bucketOnly) {
		seen.Operation, seen.Key = "LIST", strings.TrimSuffix(request.URL.Path, "/")+"/"+query.Get("prefix")
	}
	c.mutex.Lock()
	defer c.mutex.Unlock()
	seen.epoch, seen.BeganMs = c.epoch, milliseconds(seen.began.Sub(c.since))
	c.open++
	c.mostOpen = max(c.mostOpen, c.open)
	return seen
}

func (c *Counters) end(seen *Request) {
	seen.TookMs = milliseconds(time.Since(seen.began))
	c.mutex.Lock()
	defer c.mutex.Unlock()
	c.open--
	if seen.epoch != c.epoch {
		return
	}
	of(c.totals, seen.Operation).add(seen)
	c.statuses[seen.Status]++
	if seen.Operation == http.MethodGet {
		of(c.keys, seen.Key).add(seen)
		c.ranges[[2]string{seen.Key, seen.Range}]++
	}
	if len(c.requests) < maxRequests {
		c.requests = append(c.requests, seen)
	}
}

func of(totals map[string]*Totals, name string) *Totals {
	if totals[name] == nil {
		totals[name] = &Totals{}
	}
	return totals[name]
}

func milliseconds(duration time.Duration) float64 {
	return float64(duration.Microseconds()) / 1000
}

// mostRepeated is the range of an object that was asked for most often.
func (c *Counters) mostRepeated() map[string]any {
	most := map[string]any{"requests": int64(0)}
	for name, count := range c.ranges {
		if count > most["requests"].(int64) {
			most = map[string]any{"key": name[0], "range": name[1], "requests": count}
		}
	}
	return most
}

func (c *Counters) write(writer http.ResponseWriter, _ *http.Request) {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	answer(writer, map[string]any{
		"seconds": time.Since(c.since).Seconds(), "open": c.open, "most_open": c.mostOpen,
		"operations": c.totals, "get_by_key": c.keys, "statuses": c.statuses, "most_repeated": c.mostRepeated(),
	})
}

func (c *Counters) writeRequests(writer http.ResponseWriter, _ *http.Request) {
	c.mutex.Lock()
	requests := c.requests
	c.mutex.Unlock()
	encoder := json.NewEncoder(writer)
	for _, request := range requests {
		_ = encoder.Encode(request)
	}
}

func answer(writer http.ResponseWriter, value any) {
	writer.Header().Set("content-type", "application/json")
	_ = json.NewEncoder(writer).Encode(value)
}

// controls are the requests of the control address.
func controls(proxy *Proxy) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /_counters", proxy.counts.write)
	mux.HandleFunc("GET /_requests", proxy.counts.writeRequests)
	mux.HandleFunc("POST /_reset", func(http.ResponseWriter, *http.Request) { proxy.counts.reset() })
	mux.HandleFunc("POST /_fault", proxy.faults.add)
	mux.HandleFunc("GET /_faults", proxy.faults.write)
	mux.HandleFunc("POST /_heal", func(http.ResponseWriter, *http.Request) { proxy.faults.heal() })
	return mux
}
