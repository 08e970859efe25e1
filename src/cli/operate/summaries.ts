/** What each group of commands is for; read by the help before any of them is loaded. */

export const SUMMARIES = {
  jobs: 'find jobs, and cancel, retry, delete, prioritize or copy them',
  queues: 'list queues, pause, drain, configure and delete them, remove their jobs',
  'dead-letters': 'list and count dead letters, retry or delete them',
  cron: 'list recurring jobs, pause, resume, run and delete them',
  workers: 'list workers, and tell them to rest or to end',
  operations: 'list operations on many jobs, and stop them',
  events: 'follow what happens',
} as const
