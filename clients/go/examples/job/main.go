package main

import (
	"context"
	"fmt"
	"log"
	"net/http"

	baton "example.com/baton-sidecar-go"
)

func main() {
	http.Handle("POST /jobs/nightly", baton.JobHandler(nightly))
	log.Fatal(http.ListenAndServe("127.0.0.1:8080", nil))
}

func nightly(ctx context.Context, run baton.Run) (string, error) {
	return fmt.Sprintf("attempt %d of %s, with token %d", run.Attempt, run.ID, run.Token), ctx.Err()
}
