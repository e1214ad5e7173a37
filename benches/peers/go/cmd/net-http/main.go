// Command net-http answers every request alike, with Go's own HTTP server and nothing else. It prints its address, and
// ends with its standard input.
package main

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"runtime"

	"baton.bench/peers/line"
)

func main() {
	contentType, cacheControl, body := os.Args[1], os.Args[2], []byte(os.Args[3])
	// As many threads as the others have.
	runtime.GOMAXPROCS(1)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		line.Fail(err)
	}
	fmt.Println(listener.Addr())
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		os.Exit(0)
	}()
	line.Fail(http.Serve(listener, http.HandlerFunc(func(answer http.ResponseWriter, _ *http.Request) {
		answer.Header().Set("Content-Type", contentType)
		answer.Header().Set("Cache-Control", cacheControl)
		// An error is the client's.
		_, _ = answer.Write(body)
	})))
}
