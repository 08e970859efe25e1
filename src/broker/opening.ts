/** What is published through, on whichever connection. */
export interface Door {
  readonly isOpen: boolean
}

/** Who waits until a door is open, but not for ever. */
export class Opening {
  /** Each ends a wait where there is nothing more to wait for. */
  readonly #looks = new Set<() => void>()
  #isOver = false

  get waiting(): number {
    return this.#looks.size
  }

  /** Something was opened: each looks whether it is what it waits for. */
  opened(): void {
    for (const look of [...this.#looks]) look()
  }

  /** Nothing is opened any more: nobody waits. */
  end(): void {
    this.#isOver = true
    this.opened()
  }

  /** False: it is not open after `ms`, or will not be. */
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
      // It may never open: a broker takes only so many connections of a user.
      const timer = setTimeout(end, ms, false)
      this.#looks.add(look)
    })
  }
}
