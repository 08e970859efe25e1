/** What operators set for queues, as it is stored. */
import { NOT_CONFIGURED, type QueueConfiguration, type QueueSettings } from '../queue-settings.ts'

export interface StoredSettings {
  drainingAt: number | null
  /** JSON. */
  configuration: string | null
}

/** Null: nothing is set. */
export function settingsIn({ drainingAt, configuration }: StoredSettings): QueueSettings | null {
  if (drainingAt === null && configuration === null) return null
  return { drainingAt, configuration: configurationIn(configuration) }
}

export function configurationIn(text: string | null): QueueConfiguration {
  return text === null ? NOT_CONFIGURED : { ...NOT_CONFIGURED, ...JSON.parse(text) }
}

export function configurationText(configuration: QueueConfiguration): string | null {
  const isAny = Object.values(configuration).some((value) => value !== null)
  return isAny ? JSON.stringify(configuration) : null
}
