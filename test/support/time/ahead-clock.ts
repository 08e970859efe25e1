import { type Clock, systemClock } from '../../../src/clock.ts'

/** A gateway's clock that a test moves forward, instead of racing against a delay or waiting for it. */
export class AheadClock implements Clock {
  readonly #system = systemClock()
  aheadMs = 0

  now(): number {
    return this.#system.now() + this.aheadMs
  }

  wall(): number {
    return this.#system.wall() + this.aheadMs
  }
}
