package main

import (
	"context"
	"net"
	"time"
)

// Pace makes a connection as slow as one to a distant store: it delays each answer, and limits the bytes a second.
//
// It is part of this proxy because a proxy of its own costs more processor time than all else here, which the database
// on the same machine would be short of.
type Pace struct {
	latency time.Duration
	rate    int64 // bytes a second; 0 means unlimited
}

// lane is when the next bytes of a connection may leave. Its requests are answered one after the other.
type lane struct{ free time.Time }

type laneKey struct{}

func withLane(ctx context.Context, _ net.Conn) context.Context {
	return context.WithValue(ctx, laneKey{}, &lane{})
}

// maxCatchUp is how late a timer may fire without the time being lost to the connection.
const maxCatchUp = 5 * time.Millisecond

// answer waits for the latency of one answer.
func (p *Pace) answer(ctx context.Context) {
	sleep(ctx, p.latency)
}

// bytes waits until the connection has sent what was given to it before, and takes its time for `count` bytes more.
func (p *Pace) bytes(ctx context.Context, count int) {
	lane, found := ctx.Value(laneKey{}).(*lane)
	if p.rate <= 0 || !found {
		return
	}
	now := time.Now()
	if now.Sub(lane.free) > maxCatchUp {
		lane.free = now
	}
	lane.free = lane.free.Add(time.Duration(int64(count) * int64(time.Second) / p.rate))
	sleep(ctx, lane.free.Sub(now))
}

func sleep(ctx context.Context, duration time.Duration) {
	if duration <= 0 {
		return
	}
	select {
	case <-time.After(duration):
	case <-ctx.Done():
	}
}
