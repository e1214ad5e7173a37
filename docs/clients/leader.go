// Works only while Baton promises that this replica leads. Usage: leader [http://127.0.0.1:4040/leader/scheduler]
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"os/signal"
	"syscall"
	"time"
)

const stepMax = 200 * time.Millisecond // the longest that one step of the work takes

var client = http.Client{Timeout: time.Second, Transport: &http.Transport{Proxy: nil}}

// ask returns the token and until when it may be used. No answer, or a strange one, means: not the leader.
func ask(url string) (token uint64, until time.Time) {
	sent := time.Now() // the promise counts from before the request, however long the answer takes
	response, err := client.Get(url)
	if err != nil {
		return 0, time.Time{}
	}
	defer response.Body.Close()
	var answer struct {
		Leader   bool   `json:"leader"`
		Token    uint64 `json:"token"`
		ValidFor int64  `json:"valid_for_ms"`
	}
	if response.StatusCode != 200 || json.NewDecoder(response.Body).Decode(&answer) != nil || !answer.Leader {
		return 0, time.Time{}
	}
	return answer.Token, sent.Add(time.Duration(answer.ValidFor) * time.Millisecond)
}

// tell says `resign` or `drained`. A refusal only means that there was nothing to hand over.
func tell(url, word string) {
	if response, err := client.Post(url+"/"+word, "", nil); err == nil {
		response.Body.Close()
	}
}

func step(token uint64) {
	fmt.Println("acting with token", token) // hand it to whatever is written to: it refuses smaller ones
	time.Sleep(50 * time.Millisecond)
}

func main() {
	url := "http://127.0.0.1:4040/leader/scheduler"
	if len(os.Args) > 1 {
		url = os.Args[1]
	}
	running, _ := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	led := false
	for running.Err() == nil {
		token, until := ask(url)
		if token != 0 && time.Now().Add(stepMax).Before(until) {
			led = true
			step(token)
			continue
		}
		if led && token == 0 {
			led = false
			tell(url, "drained") // the work has stopped: the next leader need not wait for the promise's end
		}
		time.Sleep(200 * time.Millisecond)
	}
	if led {
		tell(url, "resign")
		tell(url, "drained")
	}
}
