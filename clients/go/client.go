package baton

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"strings"
	"time"
)

const (
	connectTimeout = time.Second
	// The longest that the sidecar is asked to wait for a lead at a time, and what it may add to a wait.
	leadWait  = 30 * time.Second
	waitSlack = 5 * time.Second
	// How long the word that the work has stopped may take.
	leaveTimeout = time.Second
	bodyMax      = 1 << 20
)

// Options say where the sidecar is.
type Options struct {
	// URL is its address; else that of the variable BATON_URL, else http://127.0.0.1:4040.
	URL string
	// TokenFile has the token that it wants (api.tokenFile), read for each request; else that of BATON_TOKEN_FILE, else
	// none.
	TokenFile string
}

// Client asks the sidecar of this pod. Any number of goroutines may use it.
type Client struct {
	base      string
	tokenFile string
}

// New makes a client. It asks nothing yet.
func New(options Options) (*Client, error) {
	given := firstOf(options.URL, os.Getenv("BATON_URL"), "http://127.0.0.1:4040")
	address, err := url.Parse(given)
	if err != nil || address.Scheme != "http" || address.Host == "" || strings.Trim(address.Path, "/") != "" {
		return nil, fmt.Errorf("%q is not the sidecar's address: http://127.0.0.1:4040 is wanted, without a path", given)
	}
	return &Client{"http://" + address.Host, firstOf(options.TokenFile, os.Getenv("BATON_TOKEN_FILE"))}, nil
}

func firstOf(values ...string) string {
	for _, value := range values {
		if value != "" {
			return value
		}
	}
	return ""
}

// A line is one connection at a time, which no proxy and no redirect leads elsewhere.
type line struct {
	client *Client
	http   http.Client
}

// headTimeout is how long the head of an answer may take.
func (c *Client) line(headTimeout time.Duration) *line {
	return &line{c, http.Client{
		Transport: &http.Transport{
			DialContext:           (&net.Dialer{Timeout: connectTimeout}).DialContext,
			ResponseHeaderTimeout: headTimeout,
			MaxConnsPerHost:       1,
		},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}
}

// hangUp closes the connection, if it is not in use: the next request makes another.
func (l *line) hangUp() {
	l.http.CloseIdleConnections()
}

func (l *line) send(ctx context.Context, method, path string) (*http.Response, error) {
	request, err := http.NewRequestWithContext(ctx, method, l.client.base+path, nil)
	if err != nil {
		return nil, err
	}
	if l.client.tokenFile != "" {
		token, err := os.ReadFile(l.client.tokenFile)
		if err != nil {
			return nil, fmt.Errorf("the file with the sidecar's token cannot be read: %w", err)
		}
		request.Header.Set("Authorization", "Bearer "+strings.TrimSpace(string(token)))
	}
	response, err := l.http.Do(request)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrUnreachable, err)
	}
	return response, nil
}

// ask reads the whole answer, into an object if it is one.
func (l *line) ask(ctx context.Context, method, path string, timeout time.Duration, into any) (*http.Response, error) {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	response, err := l.send(ctx, method, path)
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	body, err := io.ReadAll(io.LimitReader(response.Body, bodyMax))
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrUnreachable, err)
	}
	if into != nil {
		if err := json.Unmarshal(body, into); err != nil {
			return response, fmt.Errorf("the sidecar's answer is no JSON: %w", err)
		}
	}
	return response, nil
}

// opened is a connection on which something was granted.
type opened struct {
	body  io.Closer
	lines *bufio.Scanner
	name  string
	token uint64
	// About how long answers are good for. Nothing is counted by this.
	validity time.Duration
	close    context.CancelFunc
}

// open waits for a grant; into is given the first line of the answer. The connection outlives the context: its end
// would say that the work has stopped.
func (c *Client) open(waiting context.Context, path string, wait time.Duration, into any) (*opened, error) {
	ctx, cancel := context.WithCancel(context.WithoutCancel(waiting))
	waits := context.AfterFunc(waiting, cancel)
	defer waits()
	response, err := c.line(wait+waitSlack).send(ctx, http.MethodGet, path)
	if err != nil {
		cancel()
		return nil, err
	}
	if response.StatusCode != http.StatusOK {
		defer cancel()
		defer response.Body.Close()
		var why problem
		// What is no problem document has no type.
		_ = json.NewDecoder(io.LimitReader(response.Body, bodyMax)).Decode(&why)
		return nil, why.refused(response.StatusCode)
	}
	lines := bufio.NewScanner(response.Body)
	if !lines.Scan() || json.Unmarshal(lines.Bytes(), into) != nil {
		cancel()
		response.Body.Close()
		return nil, fmt.Errorf("%w: its first line broke off", ErrUnreachable)
	}
	if !waits() {
		cancel()
		response.Body.Close()
		return nil, context.Cause(waiting)
	}
	return &opened{body: response.Body, lines: lines, close: cancel}, nil
}

// isFinal reports whether asking again mends nothing.
func isFinal(err error) bool {
	var refused *Refused
	if errors.As(err, &refused) {
		switch refused.Status {
		case http.StatusBadRequest, http.StatusUnauthorized, http.StatusForbidden, http.StatusNotFound:
			return true
		}
		return false
	}
	return !errors.Is(err, ErrUnreachable)
}

// rest waits; an error says that the context is over.
func rest(ctx context.Context, span time.Duration) error {
	timer := time.NewTimer(span)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-timer.C:
		return nil
	}
}
