// Package client is the typed client of the API, and the only way in which
// commands and pages know a server. It finds a local server beside its store,
// bears its token, and turns RPC errors back into faults. It shows nothing
// and decides nothing.
package client

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"time"

	"connectrpc.com/connect"

	apipb "lehr.dev/gen/lehr/api/v1"
	"lehr.dev/gen/lehr/api/v1/apipbconnect"
	"lehr.dev/internal/access"
	"lehr.dev/internal/ground/fault"
	"lehr.dev/internal/ground/intent"
)

// Client of one server; each field is one service.
type Client struct {
	Partitions   apipbconnect.PartitionServiceClient
	Incarnations apipbconnect.IncarnationServiceClient
	Candidates   apipbconnect.CandidateServiceClient
	Assets       apipbconnect.AssetServiceClient
	Orphans      apipbconnect.OrphanServiceClient
	Reports      apipbconnect.ReportServiceClient
	Brakes       apipbconnect.BrakeServiceClient
	Approvals    apipbconnect.ApprovalServiceClient
	Journal      apipbconnect.JournalServiceClient
	Audit        apipbconnect.AuditServiceClient
	Server       apipbconnect.ServerServiceClient
	Auth         apipbconnect.AuthServiceClient
	Documents    apipbconnect.DocumentServiceClient
	Rollouts     apipbconnect.RolloutServiceClient
	Deliveries   apipbconnect.DeliveryServiceClient
	Releases     apipbconnect.ReleaseServiceClient
	Previews     apipbconnect.PreviewServiceClient
	Turndowns    apipbconnect.TurndownServiceClient
	Workflows    apipbconnect.WorkflowServiceClient
	// URL of the server, for people.
	URL string

	// servers that any call may be answered by; nil: there is one.
	servers *replicas
	idle    func()
}

// Close frees connections that are not in use.
func (c *Client) Close() { c.idle() }

// Dial returns a client of the server at a URL, or, while that does not answer,
// of another replica: the token must be one that all of them know. Nothing is
// sent yet.
func Dial(address, token string, actor intent.Actor, alternates ...string) *Client {
	return DialWithRoots(address, token, actor, nil, alternates...)
}

// DialWithRoots is Dial, believing the certificates that the roots vouch for;
// nil: the system's.
func DialWithRoots(address, token string, actor intent.Actor, roots *x509.CertPool, alternates ...string) *Client {
	transport := http.DefaultTransport.(*http.Transport).Clone()
	transport.TLSClientConfig.RootCAs = roots
	if !strings.HasPrefix(address, "https://") {
		transport.Proxy = nil // A token for this machine is sent to no proxy.
	}
	// A machine that is gone without a word is noticed by those who watch.
	dialer := net.Dialer{Timeout: 5 * time.Second, KeepAliveConfig: net.KeepAliveConfig{Enable: true, Idle: 2 * time.Second, Interval: time.Second, Count: 3}}
	transport.DialContext = dialer.DialContext
	var doer connect.HTTPClient = &http.Client{Transport: transport}
	address = strings.TrimSuffix(address, "/")
	var servers *replicas
	if len(alternates) > 0 {
		servers = newReplicas(doer, append([]string{address}, alternates...))
		doer = servers
	}
	c := newClient(doer, address, credentials{token: token, actor: actor})
	c.servers = servers
	c.idle = transport.CloseIdleConnections
	return c
}

// Discover returns a client of the server that runs on a store. NotFound when
// none left word beside it; whether it still lives shows at the first call.
func Discover(store string, actor intent.Actor) (*Client, error) {
	rendezvous, err := access.ReadRendezvous(store)
	if err != nil {
		return nil, err
	}
	return Dial(rendezvous.URL, rendezvous.Token, actor), nil
}

// InProcess returns a client of a handler in this process. Streams arrive as
// a whole when they end.
func InProcess(handler http.Handler) *Client {
	return newClient(inProcess{handler}, "http://in-process", credentials{})
}

func newClient(doer connect.HTTPClient, url string, c credentials) *Client {
	options := []connect.ClientOption{connect.WithInterceptors(c)}
	return &Client{
		Partitions:   apipbconnect.NewPartitionServiceClient(doer, url, options...),
		Incarnations: apipbconnect.NewIncarnationServiceClient(doer, url, options...),
		Candidates:   apipbconnect.NewCandidateServiceClient(doer, url, options...),
		Assets:       apipbconnect.NewAssetServiceClient(doer, url, options...),
		Orphans:      apipbconnect.NewOrphanServiceClient(doer, url, options...),
		Reports:      apipbconnect.NewReportServiceClient(doer, url, options...),
		Brakes:       apipbconnect.NewBrakeServiceClient(doer, url, options...),
		Approvals:    apipbconnect.NewApprovalServiceClient(doer, url, options...),
		Journal:      apipbconnect.NewJournalServiceClient(doer, url, options...),
		Audit:        apipbconnect.NewAuditServiceClient(doer, url, options...),
		Server:       apipbconnect.NewServerServiceClient(doer, url, options...),
		Auth:         apipbconnect.NewAuthServiceClient(doer, url, options...),
		Documents:    apipbconnect.NewDocumentServiceClient(doer, url, options...),
		Rollouts:     apipbconnect.NewRolloutServiceClient(doer, url, options...),
		Deliveries:   apipbconnect.NewDeliveryServiceClient(doer, url, options...),
		Releases:     apipbconnect.NewReleaseServiceClient(doer, url, options...),
		Previews:     apipbconnect.NewPreviewServiceClient(doer, url, options...),
		Turndowns:    apipbconnect.NewTurndownServiceClient(doer, url, options...),
		Workflows:    apipbconnect.NewWorkflowServiceClient(doer, url, options...),
		URL:          url,
		idle:         func() {},
	}
}

// credentials are added to every call, and faults taken from every answer.
type credentials struct {
	token string
	actor intent.Actor
}

func (c credentials) add(header http.Header) {
	if c.token != "" {
		header.Set("Authorization", "Bearer "+c.token)
	}
	if c.actor.Name != "" {
		header.Set(access.ActorHeader, c.actor.Name)
		header.Set(access.OriginHeader, c.actor.Origin)
	}
}

func (c credentials) WrapUnary(next connect.UnaryFunc) connect.UnaryFunc {
	return func(ctx context.Context, request connect.AnyRequest) (connect.AnyResponse, error) {
		c.add(request.Header())
		response, err := next(ctx, request)
		return response, Fault(err)
	}
}

func (c credentials) WrapStreamingClient(next connect.StreamingClientFunc) connect.StreamingClientFunc {
	return func(ctx context.Context, spec connect.Spec) connect.StreamingClientConn {
		conn := next(ctx, spec)
		c.add(conn.RequestHeader())
		return conn
	}
}

func (c credentials) WrapStreamingHandler(next connect.StreamingHandlerFunc) connect.StreamingHandlerFunc {
	return next
}

// kinds is the one place where RPC codes become kinds of fault.
var kinds = map[connect.Code]fault.Kind{
	connect.CodeNotFound:           fault.NotFound,
	connect.CodeInvalidArgument:    fault.Invalid,
	connect.CodeOutOfRange:         fault.Invalid,
	connect.CodeResourceExhausted:  fault.Exhausted,
	connect.CodeFailedPrecondition: fault.Conflict,
	connect.CodeAborted:            fault.Conflict,
	connect.CodeAlreadyExists:      fault.Conflict,
	connect.CodeUnavailable:        fault.Unavailable,
	connect.CodePermissionDenied:   fault.Denied,
	connect.CodeUnauthenticated:    fault.Denied,
}

// Fault turns a Connect error into a fault; calls do it themselves, the end
// of a stream is for its reader to turn.
func Fault(err error) error {
	answer, ok := errors.AsType[*connect.Error](err)
	if !ok {
		return err
	}
	switch answer.Code() {
	case connect.CodeCanceled:
		return context.Canceled
	case connect.CodeDeadlineExceeded:
		return context.DeadlineExceeded
	}
	result := &fault.Error{Kind: kinds[answer.Code()], Message: answer.Message(), Cause: err}
	result.Hint = Detail(err).GetHint()
	if result.Kind == fault.Exhausted && !connect.IsWireError(err) {
		result.Kind = fault.Invalid // What this side takes at most: to ask again changes nothing.
	}
	result.RetryAfter = time.Duration(Detail(err).GetRetryAfterSeconds()) * time.Second
	_, unverified := errors.AsType[*tls.CertificateVerificationError](err)
	switch {
	case unverified:
		result.Message = "the server's certificate is not believed: " + answer.Message()
		result.Hint = "name a PEM file of who vouches for it with LEHR_CA, and the server as its certificate does"
	case cutOff(err):
		result.Kind = fault.Unavailable
		result.Message, result.Hint = "contact with the server was lost: "+answer.Message(), "is it running? start one with: lehr serve"
	case !connect.IsWireError(err) && result.Kind == fault.Unavailable:
		result.Message = "no answer from the server: " + answer.Message()
		result.Hint = "is it running? start one with: lehr serve"
	case answer.Code() == connect.CodeUnauthenticated && result.Hint == "":
		result.Message = "the server refused the token"
		result.Hint = "the token changes at every start: it is in the file STORE.server.json"
	}
	return result
}

// Detail is what the server said of an error for programs: what to do, and of a refused
// change of a document, what it conflicts with. Nil: nothing.
func Detail(err error) *apipb.ErrorDetail {
	answer, ok := errors.AsType[*connect.Error](err)
	if !ok {
		return nil
	}
	for _, detail := range answer.Details() {
		if value, err := detail.Value(); err == nil {
			if errorDetail, ok := value.(*apipb.ErrorDetail); ok {
				return errorDetail
			}
		}
	}
	return nil
}

// cutOff: the connection ended in the middle of an answer. Connect calls that a
// mistake of the server's.
func cutOff(err error) bool {
	if connect.IsWireError(err) {
		return false
	}
	failed, ok := errors.AsType[*net.OpError](err)
	return errors.Is(err, io.ErrUnexpectedEOF) || ok && failed.Op == "read"
}

// inProcess carries requests to a handler by a function call.
type inProcess struct{ handler http.Handler }

func (p inProcess) Do(request *http.Request) (*http.Response, error) {
	if request.Body == nil {
		request.Body = http.NoBody
	}
	request.RequestURI = request.URL.RequestURI()
	recorder := &recorder{header: http.Header{}, status: http.StatusOK}
	p.handler.ServeHTTP(recorder, request)
	return &http.Response{
		Status: http.StatusText(recorder.status), StatusCode: recorder.status, Header: recorder.header,
		Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1, Request: request,
		Body: io.NopCloser(&recorder.body), ContentLength: int64(recorder.body.Len()),
	}, request.Context().Err()
}

type recorder struct {
	header http.Header
	status int
	body   bytes.Buffer
}

func (r *recorder) Header() http.Header         { return r.header }
func (r *recorder) WriteHeader(status int)      { r.status = status }
func (r *recorder) Write(b []byte) (int, error) { return r.body.Write(b) }

// Flush makes answers in parts possible; who asked gets them together, at the end.
func (r *recorder) Flush() {}
