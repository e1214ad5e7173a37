package baton

import (
	"context"
	"fmt"
	"sync"
	"time"

	"example.com/baton-sidecar-go/internal/clock"
)

const (
	marginMin = 20 * time.Millisecond
	pauseMin  = 50 * time.Millisecond
	// How often to look at the clock: a timer does not notice that the machine has slept.
	look = 500 * time.Millisecond
)

// A source is where claims come from: a role, or a lock.
type source interface {
	// open waits for a claim.
	open(ctx context.Context) (*opened, error)
	// lostBy says why the claim is lost, if this line of its connection says so.
	lostBy(line []byte, claim *opened) string
	// ask asks for more time: so much from before it was asked, or the reason why it is lost. Neither: that was no clear
	// answer.
	ask(ctx context.Context, line *line, claim *opened, timeout time.Duration) (time.Duration, string)
	// leave says that the work has stopped.
	leave(ctx context.Context, line *line, claim *opened)
}

// A claim is something that is held for as long as the sidecar promises, less a margin.
type claim struct {
	client *Client
	source source
	opened *opened
	margin time.Duration
	// Cancelled when it is over, with the reason.
	ctx    context.Context
	cancel context.CancelCauseFunc
	begun  chan struct{}
	ends   sync.WaitGroup

	mutex    sync.Mutex
	deadline time.Duration
	hasBegun bool
	reason   error
}

// claim waits until something is held. The context is that of the work.
func (c *Client) claim(ctx context.Context, source source, margin time.Duration) (*claim, error) {
	if margin < 0 {
		return nil, fmt.Errorf("margin %v: zero or more is wanted", margin)
	}
	for {
		granted, err := source.open(ctx)
		if err != nil {
			return nil, err
		}
		held := &claim{client: c, source: source, opened: granted, margin: margin, begun: make(chan struct{})}
		held.ctx, held.cancel = context.WithCancelCause(ctx)
		held.ends.Add(3)
		go held.listen()
		go held.ask()
		go held.watch()
		select {
		case <-held.begun:
			return held, nil
		case <-held.ctx.Done():
			held.close()
		}
		if err := rest(ctx, pauseMin); err != nil {
			return nil, err
		}
	}
}

func lost(reason string) error {
	return fmt.Errorf("%w: %s", ErrLost, reason)
}

// over says why it is over. What has run out is over at once, whoever notices it later. With the mutex.
func (c *claim) over() error {
	if c.reason == nil && c.hasBegun && clock.Now() >= c.deadline {
		c.reason = lost("what the sidecar promised has run out")
	}
	return c.reason
}

func (c *claim) token() (uint64, error) {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	if err := c.over(); err != nil {
		return 0, err
	}
	return c.opened.token, nil
}

func (c *claim) left() time.Duration {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	if c.over() != nil {
		return 0
	}
	return c.deadline - clock.Now()
}

func (c *claim) extend(askedAt, validFor time.Duration) {
	margin := c.margin
	if margin == 0 {
		margin = max(marginMin, validFor/10)
	}
	c.mutex.Lock()
	defer c.mutex.Unlock()
	deadline := askedAt + validFor - margin
	if c.over() != nil || clock.Now() >= deadline {
		return
	}
	c.deadline = max(c.deadline, deadline)
	if !c.hasBegun {
		c.hasBegun = true
		close(c.begun)
	}
}

func (c *claim) end(reason error) {
	c.mutex.Lock()
	if c.reason == nil {
		c.reason = reason
	}
	reason = c.reason
	c.mutex.Unlock()
	c.cancel(reason)
}

// listen hears of a loss, and of the connection's end.
func (c *claim) listen() {
	defer c.ends.Done()
	for c.opened.lines.Scan() {
		if reason := c.source.lostBy(c.opened.lines.Bytes(), c.opened); reason != "" {
			c.end(lost(reason))
		}
	}
	c.end(lost("the connection to the sidecar has ended"))
	c.opened.body.Close()
}

// ask asks for more time, again and again.
func (c *claim) ask() {
	defer c.ends.Done()
	line := c.client.line(0)
	defer line.hangUp()
	validity := c.opened.validity
	for pause := time.Duration(0); rest(c.ctx, pause) == nil; {
		askedAt := clock.Now()
		validFor, reason := c.source.ask(c.ctx, line, c.opened, within(50*time.Millisecond, validity/3, 2*time.Second))
		switch {
		case reason != "":
			c.end(lost(reason))
		case validFor > 0:
			c.extend(askedAt, validFor)
			validity = validFor
			pause = max(10*time.Millisecond, askedAt+validity/3-clock.Now())
		default:
			line.hangUp()
			pause = within(10*time.Millisecond, validity/10, 100*time.Millisecond)
		}
	}
}

// watch ends it when it has run out, which the other two might miss while they wait for the sidecar.
func (c *claim) watch() {
	defer c.ends.Done()
	select {
	case <-c.begun:
	case <-c.ctx.Done():
		return
	}
	for left := c.left(); left > 0; left = c.left() {
		if rest(c.ctx, min(left, look)) != nil {
			return
		}
	}
	c.end(lost("what the sidecar promised has run out"))
}

// leave says that the work has stopped, and closes the connection. If nobody hears, it ends by its lease, or by that.
func (c *claim) leave() {
	c.end(lost("its scope was left"))
	line := c.client.line(0)
	c.source.leave(context.WithoutCancel(c.ctx), line, c.opened)
	line.hangUp()
	c.close()
}

func (c *claim) close() {
	c.end(lost("its connection was closed"))
	c.opened.close()
	c.ends.Wait()
}

func within(least, value, most time.Duration) time.Duration {
	return max(least, min(value, most))
}
