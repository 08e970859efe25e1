/** Waiting, for a limited time, until a publisher or connection is open. */

/** A publisher, on whichever connection, that may be open or not. */
export interface Door {
  readonly isOpen: boolean
}

/** Lets callers wait until a door is open, for a limited time. */
export class Opening {
  /** One function per wait: ends the wait when its door is open or nothing will open any more. */
  readonly #looks = new Set<() => void>()
  #isOver = false

  get waiting(): number {
    return this.#looks.size
  }

  /** A door was opened: every wait checks whether it is its own. */
  opened(): void {
    for (const look of [...this.#looks]) look()
  }

  /** No door will open any more: ends all waits. */
  end(): void {
    this.#isOver = true
    this.opened()
  }

  /** False: the door is not open after `ms`, or never will be. */
  async untilOpen(door: Door, ms: number): Promise<boolean> {
    if (door.isOpen || this.#isOver) return door.isOpen
    return await new Promise((resolve) => {
      const end = (isOpen: boolean) => {
        clearTimeout(timer)
        this.#looks.delete(look)
        resolve(isOpen)
      }
      const look = () => {
        if (door.isOpen || this.#isOver) end(door.isOpen)
      }
      // The door may never open: RabbitMQ may limit the connections of a user.
      const timer = setTimeout(end, ms, false)
      this.#looks.add(look)
    })
  }
}
