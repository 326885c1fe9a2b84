// Command quiet is an example of a plugin of checks: it lets no push be, and no version come to an
// environment, while a file is there, and says what is written in it. docs/extend/plugins.md goes through it; lehr starts it.
package main

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"strings"

	pluginpb "lehr.dev/gen/lehr/plugin/v1"
	"lehr.dev/sdk/serve"
)

func main() {
	os.Exit(serve.MainCheck(serve.Check{Name: "quiet", Version: "1", Judge: judge}))
}

// judge asks whether anybody wants quiet. The file is the first argument.
func judge(_ context.Context, request *pluginpb.JudgeRequest) (serve.Judgement, error) {
	if len(os.Args) < 2 {
		return serve.Judgement{}, serve.Misconfigured("it was started without the name of a file")
	}
	text, err := os.ReadFile(os.Args[1])
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return serve.Pass("nobody wants quiet"), nil
	case err != nil:
		return serve.Judgement{}, err
	}
	about := request.Asset
	if request.Phase == "promotion" {
		about = request.Version
	}
	return serve.Blocking("quiet, please, also of " + about + ": " + strings.TrimSpace(string(text))), nil
}
