// The program that the suite for all clients runs (clients/README.md).
package main

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	baton "example.com/baton-sidecar-go"
	"example.com/baton-sidecar-go/internal/clock"
)

// stopping is how long the work needs to stop, whoever ends it.
const stopping = 30 * time.Millisecond

var slept atomic.Int64

func at(id int32) int64 {
	var now unix.Timespec
	if err := unix.ClockGettime(id, &now); err != nil {
		panic(err)
	}
	return now.Nano()
}

func monotonic() int64 { return at(unix.CLOCK_MONOTONIC) }

func main() {
	ctx, end := context.WithCancel(context.Background())
	go listen(end)
	clock.Now = func() time.Duration { return time.Duration(at(unix.CLOCK_BOOTTIME) + slept.Load()) }
	client, err := baton.New(baton.Options{})
	if err != nil {
		panic(err)
	}
	err = client.Leading(ctx, os.Args[1], baton.LeadOptions{}, work)
	if ctx.Err() == nil {
		panic(err)
	}
}

func work(ctx context.Context, lead *baton.Lead) error {
	began := false
	for {
		when := monotonic()
		token, err := lead.Token()
		if err != nil {
			break
		}
		if !began {
			began = true
			fmt.Printf("{\"is\":\"begins\",\"token\":%d,\"at\":%d}\n", token, when)
		}
		fmt.Printf("{\"is\":\"works\",\"token\":%d,\"at\":%d}\n", token, when)
		select {
		case <-ctx.Done():
		case <-time.After(5 * time.Millisecond):
			continue
		}
		break
	}
	fmt.Printf("{\"is\":\"cancelled\",\"at\":%d}\n", monotonic())
	lastFor(stopping)
	fmt.Printf("{\"is\":\"left\",\"at\":%d}\n", monotonic())
	return nil
}

// lastFor lets what is tested for last so long.
func lastFor(span time.Duration) {
	time.Sleep(span)
}

// listen does what is told on the standard input.
func listen(end func()) {
	defer end()
	lines := bufio.NewScanner(os.Stdin)
	for lines.Scan() {
		words := strings.Fields(lines.Text())
		if len(words) == 0 || words[0] == "end" {
			return
		}
		ms, err := strconv.ParseInt(words[1], 10, 64)
		if err != nil {
			panic(err)
		}
		slept.Add(ms * 1_000_000)
		fmt.Printf("{\"is\":\"slept\",\"at\":%d}\n", monotonic())
	}
}
