// Package line speaks the line protocol of ../../README.md.
package line

import (
	"bufio"
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"
)

var mutex sync.Mutex

// Say writes one line.
func Say(words ...any) {
	mutex.Lock()
	defer mutex.Unlock()
	fmt.Println(words...)
}

// Fail ends the process.
func Fail(err error) {
	fmt.Fprintln(os.Stderr, err)
	os.Exit(1)
}

// Orders calls for every line on standard input, and ends the process with it.
func Orders(each func(order string)) {
	for scanner := bufio.NewScanner(os.Stdin); scanner.Scan(); {
		each(scanner.Text())
	}
	os.Exit(0)
}

// Claim is what a library tells its caller of the one lock that it campaigns for.
type Claim struct {
	Held bool
	// Token is its fencing token; 0 if it has none.
	Token int64
	// Until is when the claim ends by itself, if the library tells.
	Until time.Time
}

// Holds answers every question whether the lock is held.
func Holds(claim func() Claim) {
	Say("ready")
	Orders(func(string) {
		told := claim()
		if !told.Held {
			Say("no")
			return
		}
		token, left := "-", "-"
		if told.Token != 0 {
			token = strconv.FormatInt(told.Token, 10)
		}
		if !told.Until.IsZero() {
			left = strconv.FormatInt(time.Until(told.Until).Milliseconds(), 10)
		}
		Say("yes", token, left)
	})
}

// LeaseOf reads a lease in milliseconds.
func LeaseOf(word string) time.Duration {
	milliseconds, err := strconv.Atoi(word)
	if err != nil {
		Fail(err)
	}
	return time.Duration(milliseconds) * time.Millisecond
}

// Lock is what contenders take and give back. Take waits until it has it.
type Lock struct {
	Take, Give func() error
}

// Run lets contenders take and give locks for a while, as the order says.
func Run(order string, newLock func(name string) Lock) {
	words := strings.Fields(order)
	kind, name := words[1], words[4]
	contenders, _ := strconv.Atoi(words[2])
	span, _ := strconv.Atoi(words[3])
	cycles, longest := make([]int64, contenders), make([]int64, contenders)
	restMS, _ := strconv.Atoi(words[5])
	rest := time.Duration(restMS) * time.Millisecond
	end := time.Now().Add(time.Duration(span) * time.Millisecond)
	var all sync.WaitGroup
	for at := range contenders {
		own := name
		if kind == "own" {
			own = fmt.Sprintf("%s:%d", name, at)
		}
		all.Go(func() { contend(newLock(own), end, rest, &cycles[at], &longest[at]) })
	}
	all.Wait()
	said, longestMS := []any{}, 0.0
	for at := range contenders {
		said = append(said, cycles[at])
		longestMS = max(longestMS, float64(longest[at])/1e6)
	}
	Say(append([]any{"done", longestMS}, said...)...)
}

func contend(lock Lock, end time.Time, rest time.Duration, cycles, longest *int64) {
	for asked := time.Now(); asked.Before(end); asked = time.Now() {
		if err := lock.Take(); err != nil {
			Fail(err)
		}
		got := time.Now()
		if err := lock.Give(); err != nil {
			Fail(err)
		}
		if got.Before(end) {
			*cycles++
		}
		*longest = max(*longest, got.Sub(asked).Nanoseconds())
		time.Sleep(rest)
	}
}
