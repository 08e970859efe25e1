/** Counters of control messages and of the parts that had no effect. */
import { Counter, type Registry } from 'prom-client'

import type { Refusal } from '../job/native/report.ts'

/** Why a control message had no effect. Used as a label, so there are few. */
export type MalformedReason =
  | 'unknown_type'
  | 'too_large'
  | 'invalid_json'
  | 'invalid_request'
  | 'no_reply_to'
  | 'failed'

/** What the AMQP door tells telemetry. */
export interface ControlObserver {
  received(type: string): void
  malformed(type: string, reason: MalformedReason): void
  /** Single events of a report, or ids of a heartbeat, that were left out. */
  skipped(type: string, count: number): void
  /** What a message said about jobs that it may not concern. */
  refused(type: string, reason: Refusal, count: number): void
  /** A message that a limit took out of its queue before it was read. */
  died(type: string, reason: string): void
  /** An answer that did not arrive: the asker is gone, or the answer could not be sent. */
  replyDropped(outcome: string): void
}

/**
 * The counters of the control plane (docs/architecture.md §5). `type`: that of a control message, or
 * `unknown`.
 */
export function controlMetrics(registry: Registry): ControlObserver {
  const counter = (name: string, help: string, ...labelNames: string[]) =>
    new Counter({ name, help, labelNames, registers: [registry] })
  const messages = counter('ojs_control_messages_total', 'Control messages handled', 'type')
  const malformed = counter(
    'ojs_control_malformed_total',
    'Invalid control messages: dead-lettered, or answered with an error',
    'type',
    'reason',
  )
  const skipped = counter(
    'ojs_control_skipped_total',
    'Events of reports and ids of heartbeats that were left out because they were invalid',
    'type',
  )
  const refused = counter(
    'ojs_control_refused_total',
    'What control messages said about jobs that they may not concern: without effect',
    'type',
    'reason',
  )
  const dead = counter(
    'ojs_control_dead_total',
    'Control messages that a limit removed from their queue before the gateway got them',
    'type',
    'reason',
  )
  const dropped = counter(
    'ojs_control_replies_dropped_total',
    'Answers that nobody received, or that could not be sent',
    'outcome',
  )
  return {
    received: (type) => messages.inc({ type }),
    malformed: (type, reason) => malformed.inc({ type, reason }),
    skipped: (type, count) => skipped.inc({ type }, count),
    refused: (type, reason, count) => refused.inc({ type, reason }, count),
    died: (type, reason) => dead.inc({ type, reason }),
    replyDropped: (outcome) => dropped.inc({ outcome }),
  }
}
