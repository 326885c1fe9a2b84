package cli_test

import (
	"bytes"
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	apipb "lehr.dev/gen/lehr/api/v1"
	"lehr.dev/gen/lehr/api/v1/apipbconnect"
	"lehr.dev/internal/cli"
	"lehr.dev/internal/ground/fault"
	"lehr.dev/internal/ground/intent"
	"lehr.dev/sdk/client"
)

// elsewhere is a server of a store, which counts the brakes that it is given.
type elsewhere struct {
	apipbconnect.UnimplementedServerServiceHandler
	apipbconnect.UnimplementedBrakeServiceHandler
	store  string
	brakes int
}

func (e *elsewhere) GetServer(context.Context, *apipb.GetServerRequest) (*apipb.GetServerResponse, error) {
	return &apipb.GetServerResponse{Store: e.store}, nil
}

func (e *elsewhere) SetHold(context.Context, *apipb.SetHoldRequest) (*apipb.SetHoldResponse, error) {
	e.brakes++
	return &apipb.SetHoldResponse{Hold: &apipb.Hold{Asset: "web"}}, nil
}

func (e *elsewhere) SetStop(context.Context, *apipb.SetStopRequest) (*apipb.SetStopResponse, error) {
	e.brakes++
	return &apipb.SetStopResponse{Stop: &apipb.Stop{}}, nil
}

// TestABrakeGoesToTheStoreThatIsNamed: what a flag names counts before the
// environment, and a server that the environment names is not asked for what is
// in another store.
func TestABrakeGoesToTheStoreThatIsNamed(t *testing.T) {
	const mine, other = "postgres://db/mine", "postgres://db/other"
	hold := []string{"hold", "web", "--reason", "r", "-p", "shop"}
	stop := []string{"stop", "--reason", "r"}
	for name, test := range map[string]struct {
		args   []string
		serves string
		env    map[string]string
		// asked: the server has it; opened: the store that was worked on.
		asked  bool
		opened string
		says   string
	}{
		"a server of that database":                {args: append(hold, "--database", mine), serves: mine, asked: true},
		"a server of another database":             {args: append(hold, "--database", mine), serves: other, says: "has another store"},
		"of another than the environment's":        {args: hold, serves: other, env: map[string]string{"LEHR_DATABASE": mine}, says: "LEHR_SERVER names one of another store"},
		"of the environment's":                     {args: hold, serves: mine, env: map[string]string{"LEHR_DATABASE": mine}, asked: true},
		"no database is named":                     {args: hold, serves: mine, asked: true},
		"a stop on the database":                   {args: append(stop, "--database", mine), serves: other, opened: mine},
		"a stop, and the server has another store": {args: stop, serves: other, env: map[string]string{"LEHR_DATABASE": mine}, opened: mine, says: "it is not asked"},
		"a stop on a file":                         {args: append(stop, "--store", "mine.db"), serves: other, opened: "mine.db"},
		"a hold on a file that no server has":      {args: append(hold, "--store", "mine.db"), serves: other, says: "lehr serve"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Chdir(t.TempDir())
			server := &elsewhere{store: test.serves}
			mux := http.NewServeMux()
			mux.Handle(apipbconnect.NewServerServiceHandler(server))
			mux.Handle(apipbconnect.NewBrakeServiceHandler(server))
			listening := httptest.NewServer(mux)
			defer listening.Close()
			opened := ""
			local := cli.Local{
				StoreName: func(store string) string { return store },
				Open: func(_ context.Context, store string, _ intent.Actor) (*client.Client, func() error, error) {
					opened = store
					return nil, nil, fault.New(fault.Unavailable, "not now")
				},
			}
			var out, errs bytes.Buffer
			cli.Run(t.Context(), local, cli.Terminal{Out: &out, Err: &errs, Getenv: func(variable string) string {
				return map[string]string{"LEHR_SERVER": listening.URL, "LEHR_TOKEN": "lehr_x", "LEHR_DATABASE": test.env["LEHR_DATABASE"]}[variable]
			}}, test.args)
			if server.brakes > 0 != test.asked || opened != test.opened || !strings.Contains(errs.String(), test.says) {
				t.Errorf("the server was given %d brakes, worked on %q\n%s%s", server.brakes, opened, &out, &errs)
			}
		})
	}
}
