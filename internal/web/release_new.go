package web

import (
	"context"
	"fmt"
	"strings"

	apipb "lehr.dev/gen/lehr/api/v1"
	"lehr.dev/gen/lehr/api/v1/apipbconnect"
	"lehr.dev/internal/ground/fault"
)

// newRelease is the name of the act that makes a release.
const newRelease = "release-create"

// registerNewRelease adds the act that makes a release. Its address has the versions, so that what they would do is shown
// before.
func registerNewRelease() {
	acts[newRelease] = act{
		call: apipbconnect.ReleaseServiceCreateReleaseProcedure, subject: "line", title: "Make a release of", button: "Make the release", loosens: true,
		effect: "Environments get these versions together, each as its constraints let them in.",
		show:   showNewRelease, do: createRelease,
		back: func(at address) crumb {
			line := at.query.Get("line")
			return crumb{"releases of " + line, releaseAddress(at.partition, "releases", "", line)}
		},
	}
}

// newReleaseView asks for the versions of a release.
type newReleaseView struct {
	Line, Action, Versions string
	Applications           []string
	Modes                  []option
}

// releaseModes are how a release may go out, by the name that addresses have.
var releaseModes = []struct {
	name, text string
	mode       apipb.CreateReleaseRequest_Mode
}{
	{"", "as lehr.yaml says", apipb.CreateReleaseRequest_MODE_UNSPECIFIED},
	{"train", "as a train", apipb.CreateReleaseRequest_MODE_TRAIN},
	{"immediate", "at once", apipb.CreateReleaseRequest_MODE_IMMEDIATE},
}

// showNewRelease asks for versions, and shows what a release of those that the address has would do.
func showNewRelease(ctx context.Context, r *reader, at address, form *actForm) error {
	line := at.query.Get("line")
	response, err := r.Releases.ListReleases(ctx, &apipb.ListReleasesRequest{Partition: at.partition, Line: line})
	if err != nil {
		return err
	}
	form.Asks = true
	view := newReleaseView{Line: line, Action: address{kind: "act", partition: at.partition, name: newRelease}.String(), Versions: at.query.Get("versions"), Applications: response.Applications}
	for _, mode := range releaseModes {
		view.Modes = append(view.Modes, option{Value: mode.name, Text: mode.text, Selected: mode.name == at.query.Get("mode")})
	}
	form.parts = append(form.parts, makePart("versions", "release-new", view))
	if view.Versions == "" {
		return nil
	}
	foreseen, err := makeRelease(ctx, r, at, &apipb.CreateReleaseRequest{Reason: "to see what it would do", DryRun: true})
	if err != nil {
		form.Refused = err
		return nil
	}
	form.Asks = false
	form.parts = append(form.parts, makePart("effects", "release-effects", &apipb.ActOnReleaseResponse{Effects: foreseen.Effects}), makePart("foreseen", "release-foreseen", foreseen))
	if len(foreseen.Warnings) > 0 {
		form.Choices = []choice{{Name: "despite", Label: "if it would break something", Options: []option{{Value: "no", Text: "do not make it"}, {Value: "yes", Text: "make it all the same"}}}}
	}
	return nil
}

func createRelease(ctx context.Context, r *reader, request actRequest) (string, error) {
	at := address{kind: "act", partition: request.partition, query: request.query}
	response, err := makeRelease(ctx, r, at, &apipb.CreateReleaseRequest{Reason: request.reason, DespiteTrial: request.values.Get("despite") == "yes"})
	if err != nil {
		return "", err
	}
	return fmt.Sprintf("Release %d of %s is made.", response.Release.Number, response.Release.Line), nil
}

// makeRelease sends a request for the line, the versions and the mode of an address.
func makeRelease(ctx context.Context, r *reader, at address, request *apipb.CreateReleaseRequest) (*apipb.CreateReleaseResponse, error) {
	request.Partition, request.Line, request.Versions = at.partition, at.query.Get("line"), map[string]string{}
	for word := range strings.FieldsFuncSeq(at.query.Get("versions"), func(c rune) bool { return c == ' ' || c == ',' }) {
		application, version, ok := strings.Cut(word, "=")
		if !ok || application == "" || version == "" {
			return nil, fault.New(fault.Invalid, "%.80q is no APPLICATION=VERSION", word).WithHint("write the versions as payments=1.8.0 orders=2.3.1")
		}
		if request.Versions[application] != "" {
			return nil, fault.New(fault.Invalid, "%s is named twice", application).WithHint("name one version of each application")
		}
		request.Versions[application] = version
	}
	name := at.query.Get("mode")
	for _, mode := range releaseModes {
		if mode.name == name {
			request.Mode = mode.mode
			return r.Releases.CreateRelease(ctx, request)
		}
	}
	return nil, fault.New(fault.Invalid, "%.40q is no mode", name).WithHint("the modes are train and immediate")
}
