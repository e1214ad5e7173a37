package baton_test

import (
	"context"
	"errors"
	"net/http"
	"sync/atomic"
	"testing"
	"time"

	baton "example.com/baton-sidecar-go"
	"example.com/baton-sidecar-go/internal/devtest"
)

func TestALockKeepsOthersOutUntilItsWorkHasReturned(t *testing.T) {
	dev := start(t)
	var token uint64
	owned := baton.LockOptions{Owner: "one"}
	err := dev.client(0).Locked(t.Context(), "orders/42", owned, func(ctx context.Context, lock *baton.Lock) error {
		token, _ = lock.Token()
		err := dev.client(1).Locked(ctx, "orders/42", baton.LockOptions{}, func(context.Context, *baton.Lock) error {
			t.Error("it is held")
			return nil
		})
		var refused *baton.Refused
		if !baton.IsHeld(err) || !errors.As(err, &refused) || refused.Holder.Owner != "one" || refused.Holder.Token != token {
			t.Errorf("%v", err)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	options := baton.LockOptions{Wait: baton.Forever, Lease: time.Second, Fair: true}
	err = dev.client(1).Locked(t.Context(), "orders/42", options, func(_ context.Context, lock *baton.Lock) error {
		later, err := lock.Token()
		if later <= token {
			t.Errorf("token %d after %d", later, token)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

func TestALockIsWaitedFor(t *testing.T) {
	dev := start(t)
	var isReturning atomic.Bool
	waited := make(chan error, 1)
	err := dev.client(0).Locked(t.Context(), "a", baton.LockOptions{}, func(context.Context, *baton.Lock) error {
		go func() {
			options := baton.LockOptions{Wait: devtest.Patience}
			waited <- dev.client(1).Locked(t.Context(), "a", options, func(context.Context, *baton.Lock) error {
				if !isReturning.Load() {
					return errors.New("both have it")
				}
				return nil
			})
		}()
		devtest.Until(t, "one waits", func() bool { return dev.Waits(1) })
		isReturning.Store(true)
		return nil
	})
	if err := errors.Join(err, <-waited); err != nil {
		t.Error(err)
	}
}

func TestALockThatAnOperatorTakesAwayIsLost(t *testing.T) {
	dev := start(t)
	err := dev.client(0).Locked(t.Context(), "a", baton.LockOptions{}, func(ctx context.Context, lock *baton.Lock) error {
		token, err := lock.Token()
		if err != nil {
			return err
		}
		dev.Call(1, http.MethodDelete, "/locks/a", map[string]uint64{"token": token}, nil)
		<-ctx.Done()
		_, err = lock.Token()
		devtest.WantError(t, err, "operator")
		return nil
	})
	if !errors.Is(err, baton.ErrLost) {
		t.Error(err)
	}
}

func TestSoManyMayHoldItAsThereArePermits(t *testing.T) {
	dev := start(t)
	two := baton.LockOptions{Permits: 2}
	client := dev.client(0)
	err := client.Locked(t.Context(), "pool", two, func(ctx context.Context, _ *baton.Lock) error {
		return client.Locked(ctx, "pool", two, func(ctx context.Context, _ *baton.Lock) error {
			err := client.Locked(ctx, "pool", two, func(context.Context, *baton.Lock) error { return nil })
			if !baton.IsHeld(err) {
				t.Error(err)
			}
			return nil
		})
	})
	if err != nil {
		t.Error(err)
	}
}

func TestASidecarThatIsNotThereIsTold(t *testing.T) {
	never := func(context.Context, *baton.Lock) error { return nil }
	err := client(t, "http://127.0.0.1:9").Locked(t.Context(), "a", baton.LockOptions{}, never)
	if !errors.Is(err, baton.ErrUnreachable) {
		t.Error(err)
	}
}
