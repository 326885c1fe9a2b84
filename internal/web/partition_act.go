package web

import (
	"context"
	"fmt"
	"strings"

	apipb "lehr.dev/gen/lehr/api/v1"
	"lehr.dev/gen/lehr/api/v1/apipbconnect"
)

// registerPartitionActs adds those that make partitions and tokens known, and forget partitions.
func registerPartitionActs() {
	acts["partition-add"] = act{
		call: apipbconnect.PartitionServiceAddPartitionProcedure, isGlobal: true, title: "Add a partition", button: "Add it", loosens: true,
		effect: "The server builds the partition and enforces it as its lehr.yaml says: nothing is pushed in mode observe.",
		show: func(_ context.Context, _ *reader, _ address, form *actForm) error {
			form.Texts = []field{{Name: "definition", Label: "lehr.yaml: its path on the server, or REPOSITORY//PATH?ref=BRANCH"}, {Name: "id", Label: "the name in it"}}
			return nil
		},
		do: addPartition, back: func(address) crumb { return crumb{"home", home} },
	}
	acts["partition-remove"] = act{
		call: apipbconnect.PartitionServiceRemovePartitionProcedure, title: "Forget partition", button: "Forget it", forgets: true,
		effect: "Lehr forgets the partition: its incarnations, rollouts, holds and history. Production stays as it is, and nobody enforces it any more.",
		show:   showMoving, do: removePartition, back: func(address) crumb { return crumb{"home", home} },
	}
	acts["token-create"] = act{
		call: apipbconnect.AuthServiceCreateTokenProcedure, isGlobal: true, title: "Make a token", button: "Make it", lasts: "one day", loosens: true,
		effect: "Who has the token may do what its owner may, as far as you limit it here. It is shown once, after it is made.",
		show:   showNewToken, do: createToken, back: func(address) crumb { return crumb{"access", accessKind} },
	}
}

func addPartition(ctx context.Context, r *reader, request actRequest) (string, error) {
	response, err := r.Partitions.AddPartition(ctx, &apipb.AddPartitionRequest{
		Id: strings.TrimSpace(request.values.Get("id")), Definition: strings.TrimSpace(request.values.Get("definition")), Reason: request.reason,
	})
	if err != nil {
		return "", err
	}
	return fmt.Sprintf("Partition %s is added. Its page shows what becomes of it.", response.Partition.Id), nil
}

func removePartition(ctx context.Context, r *reader, request actRequest) (string, error) {
	_, err := r.Partitions.RemovePartition(ctx, &apipb.RemovePartitionRequest{Id: request.partition, Reason: request.reason})
	return "Partition " + request.partition + " is forgotten. Production stays as it is.", err
}

// showNewToken asks what a token is limited to.
func showNewToken(_ context.Context, _ *reader, _ address, form *actForm) error {
	limits := choice{Name: "role", Label: "may", Options: []option{{Value: "", Text: "what the owner may"}}}
	for _, name := range roles() {
		limits.Options = append(limits.Options, option{Value: name, Text: "at most " + name})
	}
	form.Choices = []choice{limits}
	form.Texts = []field{{Name: "owner", Label: "owner (you)", Optional: true}, {Name: "partitions", Label: "partitions (all)", Optional: true}}
	return nil
}

func createToken(ctx context.Context, r *reader, request actRequest) (string, error) {
	ask := &apipb.CreateTokenRequest{
		Owner: strings.TrimSpace(request.values.Get("owner")), Description: request.reason, Period: request.period,
		Partitions: strings.FieldsFunc(request.values.Get("partitions"), func(c rune) bool { return c == ',' || c == ' ' }),
	}
	if role := request.values.Get("role"); role != "" {
		ask.Roles = []apipb.Role{apipb.Role(roleNumber(role))}
	}
	response, err := r.Auth.CreateToken(ctx, ask)
	if err != nil {
		return "", err
	}
	message := fmt.Sprintf("Token %s of %s is made%s. Its secret is shown only here: %s", response.Token.Id, response.Token.Owner, untilWords(response.Token.Until), response.Secret)
	if len(response.Grants) == 0 {
		message += " Its owner has no role yet, so it may do nothing."
	}
	return message, nil
}
