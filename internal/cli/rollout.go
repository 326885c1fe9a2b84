package cli

import (
	"cmp"
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	apipb "lehr.dev/gen/lehr/api/v1"
	"lehr.dev/internal/ground/document"
	"lehr.dev/internal/ground/fault"
	"lehr.dev/internal/ground/intent"
	"lehr.dev/sdk/client"
)

func (s *session) rolloutCommand() *cobra.Command {
	command := family("rollout", "Follow rollouts, and say what they are to do")
	command.Long = `A rollout lets changes of its assets go on in stages, a little at a time, each judged
before the next. These commands show how one goes, and ask something of it, which it
does within a second. lehr get rollouts lists them.`
	command.AddCommand(s.rolloutPlanCommand(), s.rolloutStatusCommand(), s.rolloutHistoryCommand(), s.rolloutRecordCommand(), s.rolloutStartCommand())
	for _, order := range rolloutOrders {
		command.AddCommand(s.rolloutOrderCommand(order))
	}
	command.AddCommand(s.rolloutVoteCommand(true), s.rolloutVoteCommand(false))
	return command
}

// rolloutOrder is what a person may ask, but for a start.
type rolloutOrder struct {
	kind        intent.OrderKind
	short, long string
	// next says what comes of it.
	next func(*apipb.Rollout) string
}

var rolloutOrders = []rolloutOrder{
	{
		kind: intent.OrderPause, short: "Let no more assets go on",
		long: "Lets no more assets go on until lehr rollout resume. Those that were let go on are pushed still: lehr stop or lehr hold is for those.",
		next: func(r *apipb.Rollout) string {
			return "It lets no more assets go on until: lehr rollout resume " + r.Name + " --reason WHY"
		},
	},
	{
		kind: intent.OrderResume, short: "Go on with what is paused",
		next: func(r *apipb.Rollout) string {
			return "It goes on within a second" + atStage(r) + ": lehr rollout status " + r.Name
		},
	},
	{
		kind: intent.OrderAbort, short: "End the run as it stands",
		long: "Ends the run as it stands: what was let go on keeps what it has, and nothing else follows.",
		next: func(r *apipb.Rollout) string {
			return "It ends as it stands: " + reached(r) + ". To undo that: lehr rollout rollback " + r.Name + " --reason WHY"
		},
	},
	{
		kind: intent.OrderSkip, short: "Wait no longer for the stage that it is at",
		long: "Counts the stage that it is at as done, whatever it lacks. The next begins as its window and pause let it.",
		next: func(r *apipb.Rollout) string {
			now := stageNow(r.GetRun())
			if now == nil {
				return "What is left goes on within a second."
			}
			return fmt.Sprintf("Stage %s counts as done, with %d of %d: the next begins within a second, if its window and pause let it.", now.Name, now.Done, now.Total)
		},
	},
	{
		kind: intent.OrderPromote, short: "Let all assets go on, or back, at once",
		long: "Lets all assets that are left go on at once. Each push waits for its checks, budgets and holds still.",
		next: func(r *apipb.Rollout) string {
			return "All that are left go on within a second; each push waits for its checks and budgets still."
		},
	},
	{
		kind: intent.OrderRollback, short: "Go back to what was good",
		long: `Gives the assets that were let go on what was good before, as newer pins to older content:
at once, or of a run that was done stage by stage, the canary last, or by the stages that
lehr.yaml defines under rollback. lehr rollout promote NAME has all that is left go back at once.`,
		next: func(r *apipb.Rollout) string {
			if r.Document != "" {
				return "The fields that still have what it set get what they had before: lehr rollout status " + r.Name
			}
			return "Its assets go back to what was good, and what it brought is not brought again until it is forgiven: lehr rollout status " + r.Name
		},
	},
	{
		kind: intent.OrderEmergency, short: "Go by the stages for emergencies",
		long: "Goes on by the stages that lehr.yaml defines under emergency, which still begin with a canary.",
		next: func(r *apipb.Rollout) string {
			return "It goes by the stages for emergencies within a second: " + strings.Join(r.Emergency, ", ")
		},
	},
	{
		kind: intent.OrderForgive, short: "Let what was judged bad be brought again",
		next: func(r *apipb.Rollout) string {
			return "What was judged bad may be brought again. If head has it still: lehr rollout start " + r.Name + " --reason WHY"
		},
	},
	{
		kind: intent.OrderRelease, short: "Let what a removed rollout keeps follow head",
		long: "Takes the pins of a rollout away that lehr.yaml has no more: its assets follow head.",
		next: func(*apipb.Rollout) string { return "Its assets follow head within a second." },
	},
}

func (s *session) rolloutOrderCommand(order rolloutOrder) *cobra.Command {
	var reason string
	command := &cobra.Command{
		Use: string(order.kind) + " NAME", Short: order.short, Long: order.long, Args: cobra.ExactArgs(1),
		RunE: func(command *cobra.Command, args []string) error {
			return s.order(command, &apipb.OrderRolloutRequest{Rollout: args[0], Kind: string(order.kind), Reason: reason}, order.next)
		},
	}
	command.Flags().StringVar(&reason, "reason", "", "why, for whoever finds it")
	return command
}

func (s *session) rolloutStartCommand() *cobra.Command {
	var reason, newValue string
	command := &cobra.Command{
		Use:   "start NAME [--to VALUE]",
		Short: "Begin a run of a rollout that sets a field or waits for a person",
		Long: `Begin a run. A rollout that sets a field of a document needs the value: valid JSON is
taken as JSON, anything else as a text. A rollout that moves pins begins by itself, unless
lehr.yaml says newer: held; then this command begins a run of what head has.`,
		Example: `  lehr rollout start knobs --to v1.5 --reason "the new binary"
  lehr rollout start frontends --reason "the freeze is over"`,
		Args: cobra.ExactArgs(1),
		RunE: func(command *cobra.Command, args []string) error {
			request := &apipb.OrderRolloutRequest{Rollout: args[0], Kind: string(intent.OrderStart), Reason: reason}
			if command.Flags().Changed("to") {
				value, err := jsonOf(newValue)
				if err != nil {
					return err
				}
				request.Value = value
			}
			return s.order(command, request, func(r *apipb.Rollout) string {
				brings := "brings what head has"
				if r.Document != "" {
					brings = fmt.Sprintf("sets %s at %s of document %s", request.Value, r.Pointer, r.Document)
				}
				return "A run begins within a second, and " + brings + ": lehr rollout status " + r.Name + " --watch"
			})
		},
	}
	command.Flags().StringVar(&reason, "reason", "", "why, for whoever finds it")
	command.Flags().StringVar(&newValue, "to", "", "value to set, JSON or a text")
	return command
}

// jsonOf is a value as a person writes it: JSON, or else a text.
func jsonOf(value string) (string, error) {
	canonical, err := document.Canonicalize([]byte(value))
	switch {
	case err != nil && strings.IndexAny(strings.TrimSpace(value), `[{"`) == 0:
		return "", fault.New(fault.Invalid, "%.60s begins as JSON does, and is none: %w", value, err).
			WithHint(`write all of it; a text that begins so goes in quotes: --to '"[a text"'`)
	case err != nil:
		return string(document.Canonical(value)), nil
	case string(canonical) != value && strings.Trim(value, "+-.0123456789eE") == "":
		return "", fault.New(fault.Invalid, "is %s a text or the number %s?", value, canonical).
			WithHint(`write --to '"%s"' for the text, or --to %s for the number`, value, canonical)
	}
	return string(canonical), nil
}

func (s *session) order(command *cobra.Command, request *apipb.OrderRolloutRequest, next func(*apipb.Rollout) string) error {
	if err := reasoned(command, request.Reason); err != nil {
		return err
	}
	return s.onPartition(command.Context(), func(c *client.Client, partition string) error {
		request.Partition = partition
		response, err := c.Rollouts.OrderRollout(command.Context(), request)
		if err != nil {
			return err
		}
		if s.json() {
			return printMessage(s.Out, response.Order)
		}
		runText := ""
		if run := response.Rollout.GetRun(); run != nil && request.Kind != string(intent.OrderStart) {
			runText = fmt.Sprintf(" (run %d, %s)", run.Run, run.State)
		}
		fmt.Fprintf(s.Out, "Asked rollout %s%s: %s.\n%s\n", plain(request.Rollout), plain(runText), request.Kind, plain(next(response.Rollout)))
		return nil
	})
}

// stageNow is the first stage that is not over, which an order to skip is about; nil: all
// are.
func stageNow(run *apipb.RolloutRun) *apipb.RolloutStage {
	for _, stage := range run.GetStages() {
		if !isStageOver(stage) {
			return stage
		}
	}
	return nil
}

// over: nobody waits for the stage. One of which all assets are done may wait for its
// validations still.
func isStageOver(stage *apipb.RolloutStage) bool {
	return stage.Total == 0 || stage.Skipped || stage.Ended != nil
}

func atStage(r *apipb.Rollout) string {
	if stage := stageNow(r.GetRun()); stage != nil {
		return " with stage " + stage.Name
	}
	return ""
}

// reached says how many assets have what the run brings.
func reached(r *apipb.Rollout) string {
	var selected, total int64
	for _, stage := range r.GetRun().GetStages() {
		selected, total = selected+stage.Selected, total+stage.Total
	}
	return fmt.Sprintf("%d of %d assets were let go on", selected, total)
}

func (s *session) rolloutHistoryCommand() *cobra.Command {
	limit := 20
	command := &cobra.Command{
		Use: "history NAME", Short: "List the runs of a rollout, the newest first", Args: cobra.ExactArgs(1),
		RunE: func(command *cobra.Command, args []string) error {
			if limit < 0 {
				return fault.New(fault.Invalid, "--limit %d is below 0", limit)
			}
			return s.readingPartition(command.Context(), func(c *client.Client, partition string) error {
				result, err := s.history(command.Context(), c, partition, args[0], limit)
				if err != nil {
					return err
				}
				return s.printListing(result, "runs")
			})
		},
	}
	command.Flags().IntVar(&limit, "limit", limit, "at most this many")
	return command
}

func (s *session) history(ctx context.Context, c *client.Client, partition, name string, limit int) (listing, error) {
	result := listing{header: []string{"RUN", "STATE", "BRINGS", "BEGAN", "TOOK", "BY", "REACHED", "REASON"}}
	request := &apipb.ListRunsRequest{Partition: partition, Rollout: name}
	more, err := pages(limit, func(most int32) (int, bool, error) {
		request.Limit = most
		response, err := c.Rollouts.ListRuns(ctx, request)
		if err != nil {
			return 0, false, err
		}
		for _, run := range response.Runs {
			duration := "so far " + s.age(run.Began)
			if run.Ended != nil {
				duration = short(run.Ended.AsTime().Sub(run.Began.AsTime()))
			}
			reason := run.Reason
			if run.Bad != "" {
				reason = "bad: " + run.Bad
			}
			result.add(run, fmt.Sprint(run.Run), run.State, brings(run), s.ago(run.Began), duration, actor(run.By),
				strings.TrimSuffix(reached(&apipb.Rollout{Run: run}), " assets were let go on"), cut(reason))
		}
		request.Before = response.Next
		return len(response.Runs), response.Next != 0, nil
	})
	result.more = more
	return result, err
}

// brings is what a run brings: an incarnation, or a value.
func brings(run *apipb.RolloutRun) string {
	if run.To != "" {
		return run.To
	}
	return run.Value
}

// change tells whose change a run brings, and what it is; empty: nobody committed it.
func change(run *apipb.RolloutRun) string { return commits(run.GetChanged()) }

func listRollouts(ctx context.Context, s *session, c *client.Client, q query) (listing, error) {
	result := listing{header: []string{"ROLLOUT", "RUN", "STATE", "BRINGS", "CHANGE", "STAGES", "SINCE", "WAITS"}}
	response, err := c.Rollouts.ListRollouts(ctx, &apipb.ListRolloutsRequest{Partition: q.partition})
	if err != nil {
		return result, err
	}
	for _, r := range response.Rollouts[:min(len(response.Rollouts), q.limit)] {
		run := r.GetRun()
		if run == nil {
			result.add(r, r.Name, "-", "no run yet", "-", "-", strings.Join(r.Stages, ","), "-", "")
			continue
		}
		state, since := run.State, run.Began
		if run.Ended != nil {
			since = run.Ended
		}
		if !r.Governs {
			state += ", not in the policy"
		}
		result.add(r, r.Name, fmt.Sprint(run.Run), state, brings(run), cmp.Or(shorten(change(run), 40), "-"), stagesDone(run), s.ago(since), cut(run.Waits))
	}
	result.more = len(response.Rollouts) > q.limit
	return result, nil
}

// stagesDone counts the stages that are over.
func stagesDone(run *apipb.RolloutRun) string {
	count := 0
	for _, stage := range run.Stages {
		if isStageOver(stage) {
			count++
		}
	}
	return fmt.Sprintf("%d/%d", count, len(run.Stages))
}

func describeRollout(ctx context.Context, s *session, c *client.Client, partition, name string) error {
	response, err := c.Rollouts.GetRollout(ctx, &apipb.GetRolloutRequest{Partition: partition, Rollout: name})
	if err != nil {
		return err
	}
	return s.printStatus(response.Rollout)
}

// openState reports whether a run in the state goes on.
func openState(state string) bool { return intent.RolloutState(state).Open() }

// goesOn reports whether the newest run goes on.
func goesOn(run *apipb.RolloutRun) bool { return run != nil && openState(run.State) }

// mostWaited for are named of what a run waits for.
const mostWaited = 5

// listed names some, and counts the rest.
func listed(names []string, most int) string {
	text := strings.Join(names[:min(len(names), most)], ", ")
	if rest := len(names) - most; rest > 0 {
		text += fmt.Sprintf(" and %d more", rest)
	}
	return text
}

// whenever is a moment that time alone reaches.
func (s *session) whenever(at time.Time) string {
	return fmt.Sprintf("%s (in %s)", at.UTC().Format("15:04:05 UTC"), short(at.Sub(s.now())))
}
