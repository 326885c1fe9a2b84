package web

import (
	"context"
	"fmt"
	"strings"

	apipb "lehr.dev/gen/lehr/api/v1"
	"lehr.dev/gen/lehr/api/v1/apipbconnect"
	intentpb "lehr.dev/gen/lehr/intent/v1"
	"lehr.dev/internal/ground/fault"
)

func registerTurndownActs() {
	acts["turndown"] = act{
		call: apipbconnect.TurndownServiceTurnDownProcedure, subject: "asset", title: "Turn down", button: "Turn it down", undo: "undo-turndown", loosens: true,
		effect: "The next incarnation says that the asset is to go from production. The push that removes it waits for its approval, as any removal does.",
		show:   showTurndown, do: turnDown,
	}
	acts["undo-turndown"] = act{
		call: apipbconnect.TurndownServiceUndoTurndownProcedure, subject: "asset", title: "Keep", button: "Keep it after all", undo: "turndown", loosens: true,
		effect: "The asset is not to go any more. What is removed by then is made again, where a generator gives it; an orphan leaves intent again.",
		show:   showPlanned, do: undoTurndown,
	}
}

// isTurnedDown reports whether an asset is to go from production.
func isTurnedDown(content *apipb.GetAssetResponse) bool {
	_, ok := content.GetAddons()[string((&intentpb.Turndown{}).ProtoReflect().Descriptor().FullName())]
	return ok
}

// showTurndown shows what turning an asset down does, and what is in the way, bound to the document as it is now.
func showTurndown(ctx context.Context, r *reader, at address, form *actForm) error {
	asset := at.query.Get("asset")
	response, err := r.Turndowns.PreviewTurndown(ctx, &apipb.PreviewTurndownRequest{Partition: at.partition, Assets: []string{asset}})
	if fault.Is(err, fault.Conflict) {
		form.Refused = err
		return nil
	}
	if err != nil {
		return err
	}
	form.Bound = []field{{Name: "base", Value: response.Base}}
	for _, preview := range response.Assets {
		form.parts = append(form.parts, makePart("turndown", "act-turndown", turndownView{preview, response.Quorum, at.partition}))
		if len(preview.NeededBy) > 0 {
			form.Refused = fault.New(fault.Conflict, "%s is needed by what stays: %s", asset, strings.Join(preview.NeededBy, ", ")).
				WithHint("turn these down as well: %s", r.command(at.partition, append([]string{"turndown", asset}, preview.NeededBy...)...))
		}
	}
	return nil
}

// turndownView is what turning one asset down does.
type turndownView struct {
	*apipb.TurndownPreview
	Quorum    uint32
	Partition string
}

func turnDown(ctx context.Context, r *reader, request actRequest) (string, error) {
	_, err := r.Turndowns.TurnDown(ctx, &apipb.TurnDownRequest{
		Partition: request.partition, Assets: []string{request.subject}, Reason: request.reason, Base: request.values.Get("base"),
	})
	return fmt.Sprintf("%s is to go. Its page shows the plan that removes it within seconds; nothing is removed before that is approved.", request.subject), err
}

func undoTurndown(ctx context.Context, r *reader, request actRequest) (string, error) {
	_, err := r.Turndowns.UndoTurndown(ctx, &apipb.UndoTurndownRequest{Partition: request.partition, Assets: []string{request.subject}, Reason: request.reason})
	return request.subject + " stays.", err
}
