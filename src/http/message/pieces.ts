/** So many buffers take some 50 kB beside their bytes. */
const MAX_LOOSE = 256

/**
 * Collects a body as it arrives. Each buffer takes some 200 bytes beside its content, and a client may send
 * every byte as a chunk of its own, so small pieces are joined while more arrive.
 */
export class Pieces {
  #whole: Buffer[] = []
  #loose: Buffer[] = []

  /** The number of buffers held. */
  get count(): number {
    return this.#whole.length + this.#loose.length
  }

  add(chunk: Buffer): void {
    this.#loose.push(chunk)
    if (this.#loose.length < MAX_LOOSE) return
    this.#whole.push(Buffer.concat(this.#loose))
    this.#loose = []
  }

  /** Returns the whole body, and holds nothing afterwards. */
  take(): Buffer {
    const all = [...this.#whole, ...this.#loose]
    this.clear()
    const [only] = all
    // Nearly every body arrives in one piece.
    return only !== undefined && all.length === 1 ? only : Buffer.concat(all)
  }

  clear(): void {
    this.#whole = []
    this.#loose = []
  }
}
