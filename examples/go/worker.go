// A native worker in Go: takes jobs, reports their outcome, acknowledges. See docs/control-protocol.md.
// The gateway does the rest: retries, delays and dead letters.
//
//	AMQP_URL=amqp://guest:guest@127.0.0.1:5672/%2Fojs OJS_QUEUE=email go run worker.go
package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log"
	"os"
	"os/signal"
	"strconv"
	"strings"
	"sync"
	"syscall"

	amqp "github.com/rabbitmq/amqp091-go"
)

const (
	exchange    = "ojs.exchange.direct"
	workerID    = "go-example"
	concurrency = 5
	// The largest job that fits into a report. The gateway takes reports of 7 MiB by default.
	maxShown = 7<<20 - 64<<10
)

type job struct {
	ID         string            `json:"id"`
	Type       string            `json:"type"`
	Queue      string            `json:"queue"`
	Args       []json.RawMessage `json:"args"`
	Generation int64             `json:"x_ojs_generation"`
}

type jobError struct {
	Code      string `json:"code"`
	Type      string `json:"type"`
	Message   string `json:"message"`
	Retryable bool   `json:"retryable"`
}

type event struct {
	JobID      string    `json:"job_id"`
	Generation int64     `json:"generation"`
	Attempt    int32     `json:"attempt"`
	Event      string    `json:"event"`
	Result     any       `json:"result,omitempty"`
	Error      *jobError `json:"error,omitempty"`
	// For a gateway that does not know the job yet, because a native client has published it.
	Job        json.RawMessage `json:"job,omitempty"`
	Headers    map[string]any  `json:"headers,omitempty"`
	Properties map[string]any  `json:"properties,omitempty"`
}

var errPermanent = errors.New("permanent")

func sendEmail(j job, attempt int32) (any, error) {
	var to string
	if len(j.Args) == 0 || json.Unmarshal(j.Args[0], &to) != nil {
		return nil, fmt.Errorf("%w: no address", errPermanent)
	}
	if strings.HasSuffix(to, "@flaky.example") && attempt == 1 {
		return nil, fmt.Errorf("%s: try again later", to)
	}
	return map[string]any{"delivered": to, "attempt": attempt}, nil
}

func run(j job, attempt int32) (any, error) {
	switch j.Type {
	case "email.send":
		return tellable(sendEmail(j, attempt))
	default:
		return nil, fmt.Errorf("%w: no handler for %s", errPermanent, j.Type)
	}
}

// tellable fails the job if its result has no JSON form, or one for which the gateway would drop the
// event. Otherwise the job would be redelivered for ever.
func tellable(result any, err error) (any, error) {
	if err != nil {
		return nil, err
	}
	text, err := json.Marshal(result)
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.UseNumber()
	for err == nil {
		var token json.Token
		token, err = decoder.Token()
		if number, isNumber := token.(json.Number); isNumber && !isExact(number.String()) {
			err = fmt.Errorf("%s is beyond 2^53", number)
		}
	}
	if err != io.EOF {
		return nil, fmt.Errorf("%w: the result cannot be reported: %v", errPermanent, err)
	}
	return result, nil
}

func isExact(number string) bool {
	if strings.ContainsAny(number, ".e") {
		return true
	}
	n, err := strconv.ParseInt(number, 10, 64)
	return err == nil && -1<<53 < n && n < 1<<53
}

// reporter publishes one message at a time, so that a return or a confirm always belongs to the
// current publish. (Debian's amqp091-go 1.5.0 registers a deferred confirmation only after the send:
// if the confirm comes before that, it waits for ever.)
type reporter struct {
	mutex     sync.Mutex
	channel   *amqp.Channel
	returned  chan amqp.Return
	confirmed chan amqp.Confirmation
}

// report returns nil when RabbitMQ has confirmed the message and has not returned it.
func (r *reporter) report(queue string, e event) error {
	body, err := json.Marshal(map[string]any{"worker_id": workerID, "events": []event{e}})
	if err != nil {
		return err
	}
	r.mutex.Lock()
	defer r.mutex.Unlock()
	err = r.channel.PublishWithContext(
		context.Background(), exchange, "ojs.queue.control."+queue, true, false,
		amqp.Publishing{
			Type:         "ojs.control.report",
			ContentType:  "application/openjobspec+json",
			DeliveryMode: amqp.Persistent,
			Body:         body,
		})
	if err != nil {
		return err
	}
	if confirm, isOpen := <-r.confirmed; !isOpen || !confirm.Ack {
		return errors.New("not confirmed")
	}
	select {
	case <-r.returned: // a return comes before its confirm
		return errors.New("no gateway has declared the control queue yet")
	default:
		return nil
	}
}

// attemptOf reads x-ojs-attempt: an int32, as seed 002 says and the gateway sends it. Other producers
// may send anything, and a message that crashes this program would be redelivered for ever.
func attemptOf(headers amqp.Table) int32 {
	header := headers["x-ojs-attempt"]
	attempt, isInt32 := header.(int32)
	if !isInt32 && header != nil {
		log.Printf("x-ojs-attempt is a %T", header)
	}
	if attempt < 1 {
		return 1
	}
	return attempt
}

// show adds what the gateway needs to publish the next attempt.
func (e *event) show(d amqp.Delivery) {
	e.Job = d.Body
	e.Headers = map[string]any{}
	for name, value := range d.Headers {
		switch value.(type) {
		case string, bool, int32: // values that JSON cannot carry would cost the whole event
			e.Headers[name] = value
		}
	}
	e.Properties = map[string]any{
		"priority": d.Priority, "correlation_id": d.CorrelationId,
		"reply_to": d.ReplyTo, "app_id": d.AppId,
	}
	if year := d.Timestamp.Year(); year >= 1970 && year < 10_000 {
		e.Properties["timestamp"] = d.Timestamp.Unix()
	}
}

// handle runs one delivery and settles it. An error means that RabbitMQ will redeliver it.
func handle(r *reporter, queue string, d amqp.Delivery) error {
	var j job
	if json.Unmarshal(d.Body, &j) != nil || j.ID == "" || j.Type == "" {
		return d.Nack(false, false)
	}
	attempt := attemptOf(d.Headers)
	e := event{JobID: j.ID, Generation: j.Generation, Attempt: attempt, Event: "completed"}
	result, err := run(j, attempt)
	if err != nil && len(d.Body) > maxShown {
		log.Printf("%s is too large to be shown: %v", j.ID, err)
		return d.Nack(false, false) // to the dead letter queue: no report could carry the job
	}
	if err != nil {
		e.Event = "failed"
		e.show(d)
		e.Error = &jobError{
			Code: "handler_error", Type: "error", Message: err.Error(),
			Retryable: !errors.Is(err, errPermanent),
		}
	} else {
		e.Result = result
	}
	if err := r.report(queue, e); err != nil {
		return err
	}
	return d.Ack(false)
}

func work(url, queue string) error {
	connection, err := amqp.Dial(url)
	if err != nil {
		return err
	}
	defer connection.Close()
	channel, err := connection.Channel()
	if err != nil {
		return err
	}
	if err := channel.Confirm(false); err != nil {
		return err
	}
	if err := channel.Qos(concurrency, 0, false); err != nil {
		return err
	}
	r := &reporter{
		channel:   channel,
		returned:  channel.NotifyReturn(make(chan amqp.Return, 1)),
		confirmed: channel.NotifyPublish(make(chan amqp.Confirmation, 1)),
	}
	deliveries, err := channel.Consume("ojs.queue."+queue, workerID, false, false, false, false, nil)
	if err != nil {
		return err
	}

	stop := make(chan os.Signal, 1)
	signal.Notify(stop, syscall.SIGTERM, os.Interrupt)
	stopping := make(chan struct{})
	go func() {
		<-stop
		close(stopping)
		_ = channel.Cancel(workerID, false) // closes `deliveries`; running jobs are finished below
	}()

	var group sync.WaitGroup
	failed := make(chan error, concurrency)
	for i := 0; i < concurrency; i++ {
		group.Add(1)
		go func() {
			defer group.Done()
			for d := range deliveries {
				if err := handle(r, queue, d); err != nil {
					failed <- err
					connection.Close() // RabbitMQ redelivers unsettled messages to the next consumer
					return
				}
			}
		}()
	}
	group.Wait()
	select {
	case err := <-failed:
		return err
	default:
	}
	select {
	case <-stopping:
		return nil
	default:
		return errors.New("the connection was lost")
	}
}

func main() {
	queue := os.Getenv("OJS_QUEUE")
	if queue == "" {
		queue = "email"
	}
	// A supervisor is expected to restart this program.
	if err := work(os.Getenv("AMQP_URL"), queue); err != nil {
		log.Fatal(err)
	}
}
