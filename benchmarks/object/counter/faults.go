package main

import (
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"
)

// Fault is a wrong answer to the next `count` requests of a method whose path begins with `prefix`.
//
//	curl -X POST 'http://127.0.0.1:17073/_fault?kind=truncate&count=3&prefix=/lab/ssb/&after=65536'
//
// The kinds:
//
//	error     500 InternalError instead of the answer
//	slowdown  503 SlowDown instead of the answer
//	close     the connection is closed before any answer
//	stall     nothing for `seconds` after `after` bytes of the body, then the rest
//	truncate  the connection is closed after `after` bytes of the body, fewer than its Content-Length says
//	short     a complete answer whose body has only `after` bytes, although more were asked for
//	long      a complete answer whose body has `after` zero bytes more than were asked for
//
// Defaults: count 1, prefix /, method GET (a listing is one too), after half of the body (long: 1), seconds 60.
type Fault struct {
	Kind    string  `json:"kind"`
	Left    int     `json:"left"`
	Prefix  string  `json:"prefix"`
	Method  string  `json:"method"`
	After   int64   `json:"after"`
	Seconds float64 `json:"seconds"`
	stalled bool
}

const half = -1

var kinds = map[string]bool{"error": true, "slowdown": true, "close": true, "stall": true, "truncate": true, "short": true, "long": true}

// Faults that are left; the oldest that fits a request is taken.
type Faults struct {
	mutex sync.Mutex
	left  []*Fault
}

func (f *Faults) add(writer http.ResponseWriter, request *http.Request) {
	query := request.URL.Query()
	fault := &Fault{Kind: query.Get("kind"), Left: 1, Prefix: "/", Method: http.MethodGet, After: half, Seconds: 60}
	var err error
	read := func(name string, set func(string) error) {
		if err == nil && query.Has(name) {
			err = set(query.Get(name))
		}
	}
	read("count", func(text string) (e error) { fault.Left, e = strconv.Atoi(text); return })
	read("after", func(text string) (e error) { fault.After, e = strconv.ParseInt(text, 10, 64); return })
	read("seconds", func(text string) (e error) { fault.Seconds, e = strconv.ParseFloat(text, 64); return })
	read("prefix", func(text string) error { fault.Prefix = text; return nil })
	read("method", func(text string) error { fault.Method = text; return nil })
	if err == nil && !kinds[fault.Kind] {
		err = fmt.Errorf("unknown kind `%s`", fault.Kind)
	}
	if err != nil {
		http.Error(writer, err.Error(), http.StatusBadRequest)
		return
	}
	f.mutex.Lock()
	defer f.mutex.Unlock()
	f.left = append(f.left, fault)
}

func (f *Faults) heal() {
	f.mutex.Lock()
	defer f.mutex.Unlock()
	f.left = nil
}

func (f *Faults) write(writer http.ResponseWriter, _ *http.Request) {
	f.mutex.Lock()
	defer f.mutex.Unlock()
	answer(writer, append([]*Fault{}, f.left...))
}

// take gives the request's own copy of the fault that it meets, or nil.
func (f *Faults) take(request *http.Request) *Fault {
	f.mutex.Lock()
	defer f.mutex.Unlock()
	for place, fault := range f.left {
		if fault.Method == request.Method && strings.HasPrefix(request.URL.Path, fault.Prefix) {
			if fault.Left--; fault.Left <= 0 {
				f.left = append(f.left[:place:place], f.left[place+1:]...)
			}
			taken := *fault
			return &taken
		}
	}
	return nil
}

// refuse answers without the store, if this is such a fault.
func (f *Fault) refuse(writer http.ResponseWriter, request *http.Request, seen *Request) bool {
	code := ""
	switch f.Kind {
	case "close":
		panic(http.ErrAbortHandler)
	case "error":
		seen.Status, code = http.StatusInternalServerError, "InternalError"
	case "slowdown":
		seen.Status, code = http.StatusServiceUnavailable, "SlowDown"
	default:
		return false
	}
	writer.Header().Set("content-type", "application/xml")
	writer.WriteHeader(seen.Status)
	if request.Method != http.MethodHead {
		written, _ := fmt.Fprintf(writer, "<?xml version=\"1.0\"?><Error><Code>%s</Code><Message>a fault of the lab</Message></Error>", code)
		seen.Bytes += int64(written)
	}
	return true
}

// length settles how long the body will be, and changes the header where this fault says another length.
func (f *Fault) length(answer *http.Response) int64 {
	length := answer.ContentLength
	if f.After == half {
		f.After = max(length, 0) / 2
		if f.Kind == "long" {
			f.After = 1
		}
	}
	switch {
	case length < 0:
	case f.Kind == "short":
		length = min(length, f.After)
		answer.Header.Set("Content-Length", strconv.FormatInt(length, 10))
	case f.Kind == "long":
		answer.Header.Set("Content-Length", strconv.FormatInt(length+f.After, 10))
	}
	return length
}

// before shortens the next part of the body to where this fault strikes, and strikes there.
func (f *Fault) before(writer http.ResponseWriter, request *http.Request, seen *Request, part []byte) []byte {
	if f.Kind != "stall" && f.Kind != "truncate" || f.stalled {
		return part
	}
	if seen.Bytes < f.After {
		return part[:min(int64(len(part)), f.After-seen.Bytes)]
	}
	_ = http.NewResponseController(writer).Flush()
	if f.Kind == "truncate" {
		panic(http.ErrAbortHandler)
	}
	f.stalled = true
	select {
	case <-time.After(time.Duration(f.Seconds * float64(time.Second))):
	case <-request.Context().Done():
	}
	return part
}

// pad appends what a `long` answer has too much.
func (f *Fault) pad(writer http.ResponseWriter, seen *Request) {
	if f.Kind == "long" {
		written, _ := writer.Write(make([]byte, f.After))
		seen.Bytes += int64(written)
	}
}
