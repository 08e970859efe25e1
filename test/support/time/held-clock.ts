import { type Clock, systemClock } from '../../../src/clock.ts'

/** A clock whose wall time stands still until a test moves it, so that tests control the ticks. */
export class HeldClock implements Clock {
  readonly #system = systemClock()
  #wall = Date.parse('2026-02-12T10:30:30Z')

  now(): number {
    return this.#system.now()
  }

  wall(): number {
    return this.#wall
  }

  advance(ms: number): void {
    this.#wall += ms
  }
}
