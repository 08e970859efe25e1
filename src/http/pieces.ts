/** As many hold some 50 kB beside their bytes. */
const MAX_LOOSE = 256

/**
 * A body as it comes in. A buffer takes some 200 bytes beside its own, and a client may send every
 * byte in a chunk of its own: small pieces are joined while more are coming.
 */
export class Pieces {
  #whole: Buffer[] = []
  #loose: Buffer[] = []

  /** Buffers that are held. */
  get count(): number {
    return this.#whole.length + this.#loose.length
  }

  add(chunk: Buffer): void {
    this.#loose.push(chunk)
    if (this.#loose.length < MAX_LOOSE) return
    this.#whole.push(Buffer.concat(this.#loose))
    this.#loose = []
  }

  /** All of it; holds nothing afterwards. */
  take(): Buffer {
    const all = [...this.#whole, ...this.#loose]
    this.clear()
    const [only] = all
    // Nearly every body comes in one piece.
    return only !== undefined && all.length === 1 ? only : Buffer.concat(all)
  }

  clear(): void {
    this.#whole = []
    this.#loose = []
  }
}
