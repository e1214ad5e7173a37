package baton_test

import (
	"context"
	"errors"
	"maps"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	baton "example.com/baton-sidecar-go"
)

var headers = map[string]string{
	"Baton-Run-Id":         "nightly-1763690400",
	"Baton-Scheduled-Time": "2025-11-21T02:00:00Z",
	"Baton-Attempt":        "2",
	"Baton-Fencing-Token":  "41",
}

func TestAJobsWorkIsGivenItsRunAndAnswersForIt(t *testing.T) {
	var seen []baton.Run
	handler := baton.JobHandler(func(_ context.Context, run baton.Run) (string, error) {
		seen = append(seen, run)
		if string(run.Body) == "fail" {
			return "", errors.New("no disk")
		}
		return "41 rows", nil
	})
	for _, call := range []struct {
		change map[string]string
		body   string
		status int
		text   string
	}{
		{map[string]string{"Baton-Shard": "3"}, "{}", 200, "41 rows"},
		{nil, "fail", 500, "no disk"},
		{map[string]string{"Baton-Fencing-Token": "43"}, "", 200, "41 rows"},
		{map[string]string{"Baton-Fencing-Token": "42"}, "", 409, "later leader has sent 43"},
		{map[string]string{"Baton-Fencing-Token": "42", "Baton-Shard": "3"}, "", 200, "41 rows"},
		{map[string]string{"Baton-Attempt": ""}, "", 400, "Baton-Attempt is missing"},
		{map[string]string{"Baton-Attempt": "two"}, "", 400, "Baton-Attempt is not"},
		{map[string]string{"Baton-Run-Id": ""}, "", 400, "Baton-Run-Id"},
		{map[string]string{"Baton-Scheduled-Time": "noon"}, "", 400, "Baton-Scheduled-Time"},
		{map[string]string{"Baton-Fencing-Token": "-1"}, "", 400, "Baton-Fencing-Token"},
		{map[string]string{"Baton-Shard": "x"}, "", 400, "Baton-Shard"},
	} {
		request := httptest.NewRequest("POST", "/jobs/nightly", strings.NewReader(call.body))
		all := maps.Clone(headers)
		maps.Copy(all, call.change)
		for name, value := range all {
			request.Header.Set(name, value)
		}
		answer := httptest.NewRecorder()
		handler.ServeHTTP(answer, request)
		if answer.Code != call.status || !strings.Contains(answer.Body.String(), call.text) {
			t.Errorf("%v %q: %d %s", call.change, call.body, answer.Code, answer.Body)
		}
	}
	if len(seen) != 4 {
		t.Fatalf("%d were begun", len(seen))
	}
	run := seen[0]
	due := time.Date(2025, 11, 21, 2, 0, 0, 0, time.UTC)
	if run.ID != headers["Baton-Run-Id"] || !run.ScheduledTime.Equal(due) || run.Attempt != 2 || run.Token != 41 ||
		*run.Shard != 3 {
		t.Errorf("%+v", run)
	}
	if seen[1].Shard != nil {
		t.Error("it has no shard")
	}
}
