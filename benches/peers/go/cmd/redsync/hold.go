package main

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"github.com/go-redsync/redsync/v4"

	"baton.bench/peers/line"
)

// hold takes the lock and extends it three times in a lease. It holds it until Until, or until an extension is refused.
func hold(locks *redsync.Redsync, name string, lease time.Duration) {
	mutex := locks.NewMutex(name, redsync.WithExpiry(lease))
	var until atomic.Pointer[time.Time]
	told := func(end time.Time) { until.Store(&end) }
	extend := func() bool {
		ctx, cancel := context.WithTimeout(context.Background(), lease/3)
		defer cancel()
		ok, err := mutex.ExtendContext(ctx)
		if ok {
			told(mutex.Until())
			return true
		}
		var taken *redsync.ErrTaken
		refused := err == nil || errors.Is(err, redsync.ErrExtendFailed) || errors.As(err, &taken)
		return !refused && time.Now().Before(mutex.Until())
	}
	told(time.Time{})
	go func() {
		for {
			if mutex.Lock() != nil {
				continue
			}
			told(mutex.Until())
			for time.Sleep(lease / 3); extend(); time.Sleep(lease / 3) {
			}
			told(time.Time{})
		}
	}()
	line.Holds(func() line.Claim {
		end := *until.Load()
		return line.Claim{Held: time.Now().Before(end), Until: end}
	})
}
