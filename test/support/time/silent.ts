import type { Logger } from '../../../src/logger.ts'

/** A logger that writes nothing. */
export const SILENT: Logger = { debug() {}, info() {}, warn() {}, error() {} }
