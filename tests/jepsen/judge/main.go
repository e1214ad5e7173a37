// Command judge reads operations, a line of JSON each, and writes for every history whether it is linearizable: a lock
// that one client has at a time, or a register that is only ever incremented.
package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"sort"
	"time"

	"github.com/anishathalye/porcupine"
)

// Far longer than any history of one fault takes.
const boundOfOne = time.Minute

// operation is a line of the input. Times are nanoseconds.
type operation struct {
	History string `json:"history"`
	Client  int    `json:"client"`
	Call    int64  `json:"call"`
	Return  int64  `json:"return"`
	// "acquire", "release", "increment", or "perhaps": an increment of which nobody knows whether it was made.
	Kind string `json:"kind"`
	// What an increment had read, and wrote one more than.
	Read int `json:"read"`
}

const nobody = -1

// lock is had by one client at a time.
var lock = porcupine.Model{
	Init: func() any { return nobody },
	Step: func(state, input, _ any) (bool, any) {
		switch asked := input.(operation); asked.Kind {
		case "acquire":
			return state == nobody, asked.Client
		case "release":
			return state == asked.Client, nobody
		default:
			return false, state
		}
	},
}

// counter is a register that is read, and written with one more, as if in one moment.
var counter = porcupine.Model{
	Init: func() any { return 0 },
	Step: func(state, input, _ any) (bool, any) {
		asked := input.(operation)
		switch {
		case state == asked.Read:
			return true, asked.Read + 1
		case asked.Kind == "perhaps":
			return true, state
		default:
			return false, state
		}
	},
}

func main() {
	histories := map[string][]porcupine.Operation{}
	models := map[string]porcupine.Model{}
	scanner := bufio.NewScanner(os.Stdin)
	for scanner.Scan() {
		var read operation
		if err := json.Unmarshal(scanner.Bytes(), &read); err != nil {
			fmt.Fprintf(os.Stderr, "judge: %v: %s\n", err, scanner.Text())
			os.Exit(1)
		}
		histories[read.History] = append(histories[read.History], porcupine.Operation{
			ClientId: read.Client, Input: read, Call: read.Call, Return: read.Return,
		})
		switch read.Kind {
		case "acquire", "release":
			models[read.History] = lock
		case "increment", "perhaps":
			models[read.History] = counter
		default:
			fmt.Fprintf(os.Stderr, "judge: unknown kind %q\n", read.Kind)
			os.Exit(1)
		}
	}
	if err := scanner.Err(); err != nil {
		fmt.Fprintln(os.Stderr, "judge:", err)
		os.Exit(1)
	}
	names := make([]string, 0, len(histories))
	for name := range histories {
		names = append(names, name)
	}
	sort.Strings(names)
	for _, name := range names {
		// "Ok", "Illegal" or "Unknown".
		fmt.Println(name, porcupine.CheckOperationsTimeout(models[name], histories[name], boundOfOne))
	}
}
