package cli

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"
	"google.golang.org/protobuf/proto"

	apipb "lehr.dev/gen/lehr/api/v1"
	"lehr.dev/internal/ground/fault"
	"lehr.dev/sdk/client"
)

// order is what a person asks for about one asset, with a reason.
type order struct {
	client    *client.Client
	partition string
	asset     string
	// args are all of the command, the asset first.
	args   []string
	reason string
	// lasts is for how long; 0: until it is taken away.
	lasts time.Duration
}

// carryOut sends an order. It returns the message that is shown as JSON, and what prints
// for people what came of it.
type carryOut func(ctx context.Context, o order) (message proto.Message, print func(), err error)

// What a reason is for, as --help says it.
const (
	forFinders = "why, for whoever finds it"
	forAudit   = "why, for the audit"
)

// orderCommand makes a command of an order, which is refused without a reason.
func (s *session) orderCommand(command *cobra.Command, reasonUsage string, do carryOut) *cobra.Command {
	var o order
	command.RunE = func(command *cobra.Command, args []string) error { return s.runOrder(command, o, args, do) }
	command.Flags().StringVar(&o.reason, "reason", "", reasonUsage)
	return command
}

// lastingOrderCommand makes one of an order that may end by itself.
func (s *session) lastingOrderCommand(command *cobra.Command, do carryOut) *cobra.Command {
	var o order
	command.RunE = func(command *cobra.Command, args []string) error { return s.runOrder(command, o, args, do) }
	command.Flags().StringVar(&o.reason, "reason", "", forFinders)
	command.Flags().DurationVar(&o.lasts, "for", 0, "how long, for example 2h (default: until somebody ends it)")
	return command
}

func (s *session) runOrder(command *cobra.Command, o order, args []string, do carryOut) error {
	if err := reasoned(command, o.reason); err != nil {
		return err
	}
	return s.onPartition(command.Context(), func(c *client.Client, partition string) error {
		o.client, o.partition, o.asset, o.args = c, partition, args[0], args
		message, print, err := do(command.Context(), o)
		switch {
		case err != nil:
			return err
		case s.json():
			return printMessage(s.Out, message)
		}
		print()
		return nil
	})
}

func (s *session) pinCommand() *cobra.Command {
	return s.lastingOrderCommand(&cobra.Command{
		Use:   "pin ASSET INCARNATION",
		Short: "Make an asset follow one incarnation instead of head",
		Example: `  lehr pin web/a shop@12 --reason "13 is slow"
  lehr pin web/a 12 --reason "13 is slow" --for 2h`,
		Args: cobra.ExactArgs(2),
	}, func(ctx context.Context, o order) (proto.Message, func(), error) {
		response, err := o.client.Brakes.SetPin(ctx, &apipb.SetPinRequest{
			Partition: o.partition, Asset: o.asset, Incarnation: incarnationID(o.partition, o.args[1]), Reason: o.reason, Period: period(o.lasts),
		})
		pin := response.GetPin()
		return pin, func() {
			fmt.Fprintf(s.Out, "Pinned %s to %s%s. It follows head again %s: lehr unpin %s --reason WHY\n",
				plain(pin.Asset), plain(pin.Incarnation), untilText(o.lasts), endText(o.lasts), plain(pin.Asset))
		}, err
	})
}

// endText says when a brake ends: by a command, or by itself before that.
func endText(d time.Duration) string {
	if d == 0 {
		return "after"
	}
	return "then, or after"
}

func untilText(d time.Duration) string {
	if d == 0 {
		return ""
	}
	return " for " + d.String()
}

func (s *session) unpinCommand() *cobra.Command {
	return s.orderCommand(&cobra.Command{
		Use:   "unpin ASSET",
		Short: "Let an asset follow head again",
		Args:  cobra.ExactArgs(1),
	}, forAudit, func(ctx context.Context, o order) (proto.Message, func(), error) {
		response, err := o.client.Brakes.RemovePin(ctx, &apipb.RemovePinRequest{Partition: o.partition, Asset: o.asset, Reason: o.reason})
		return response, func() { fmt.Fprintf(s.Out, "Unpinned %s: it follows head.\n", plain(o.asset)) }, err
	})
}

func (s *session) holdCommand() *cobra.Command {
	return s.lastingOrderCommand(&cobra.Command{
		Use:   "hold ASSET",
		Short: "Keep an asset from being pushed",
		Args:  cobra.ExactArgs(1),
	}, func(ctx context.Context, o order) (proto.Message, func(), error) {
		response, err := o.client.Brakes.SetHold(ctx, &apipb.SetHoldRequest{Partition: o.partition, Asset: o.asset, Reason: o.reason, Period: period(o.lasts)})
		hold := response.GetHold()
		return hold, func() {
			fmt.Fprintf(s.Out, "Holding %s%s. It is pushed again %s: lehr unhold %s --reason WHY\n", plain(hold.Asset), untilText(o.lasts), endText(o.lasts), plain(hold.Asset))
			s.warnOfAbsence(ctx, o.client, o.partition, hold.Asset)
		}, err
	})
}

// warnOfAbsence says so when a hold is on an asset that head does not have: it
// may be meant for one to come, or be misspelt.
func (s *session) warnOfAbsence(ctx context.Context, c *client.Client, partition, asset string) {
	_, err := c.Assets.GetAsset(ctx, &apipb.GetAssetRequest{Partition: partition, Asset: asset})
	if cause, ok := errors.AsType[*fault.Error](err); ok && cause.Kind == fault.NotFound {
		fmt.Fprintf(s.Err, "But %s\n      %s\n", plain(cause.Message), plain(cause.Hint))
	}
}

func (s *session) unholdCommand() *cobra.Command {
	return s.orderCommand(&cobra.Command{
		Use:   "unhold ASSET",
		Short: "End a hold",
		Args:  cobra.ExactArgs(1),
	}, forAudit, func(ctx context.Context, o order) (proto.Message, func(), error) {
		response, err := o.client.Brakes.RemoveHold(ctx, &apipb.RemoveHoldRequest{Partition: o.partition, Asset: o.asset, Reason: o.reason})
		return response, func() { fmt.Fprintf(s.Out, "No longer holding %s.\n", plain(o.asset)) }, err
	})
}

func (s *session) retryCommand() *cobra.Command {
	return s.orderCommand(&cobra.Command{
		Use:   "retry ASSET",
		Short: "Look at an asset now, and push it if it differs from intent",
		Long: `Look at an asset now, and push it if it differs from intent, as if no push of it had
failed before: the pause between tries ends, also that of a quarantine. Checks,
holds, pins and stops still apply.`,
		Args: cobra.ExactArgs(1),
	}, forAudit, func(ctx context.Context, o order) (proto.Message, func(), error) {
		response, err := o.client.Brakes.RetryAsset(ctx, &apipb.RetryAssetRequest{Partition: o.partition, Asset: o.asset, Reason: o.reason})
		return response, func() {
			fmt.Fprintf(s.Out, "%s is tried now. What comes of it: lehr why %s\n", plain(o.asset), plain(o.asset))
		}, err
	})
}
