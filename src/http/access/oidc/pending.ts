/** A sign-in that has begun: kept by the browser, in a cookie that only this process can read and write. */
import { createCipheriv, createDecipheriv, randomBytes } from 'node:crypto'

/** Time enough for a password and a second factor. */
export const PENDING_MS = 600_000
const CIPHER = 'aes-256-gcm'
const IV_BYTES = 12
const TAG_BYTES = 16

/** What the answer of the provider must fit. */
export interface Pending {
  readonly state: string
  readonly nonce: string
  readonly verifier: string
  readonly redirectUrl: string
  /** On the gateway's clock. */
  readonly until: number
}

/** The gateway remembers nothing of sign-ins under way, so nobody can fill its memory with them. */
export class Seal {
  readonly #key = randomBytes(32)

  close(pending: Pending): string {
    const iv = randomBytes(IV_BYTES)
    const cipher = createCipheriv(CIPHER, this.#key, iv)
    const sealed = Buffer.concat([cipher.update(JSON.stringify(pending)), cipher.final()])
    return Buffer.concat([iv, cipher.getAuthTag(), sealed]).toString('base64url')
  }

  /** Undefined for what this process has not sealed, or no longer trusts. */
  open(text: string, now: number): Pending | undefined {
    const bytes = Buffer.from(text, 'base64url')
    if (bytes.length <= IV_BYTES + TAG_BYTES) return undefined
    try {
      const cipher = createDecipheriv(CIPHER, this.#key, bytes.subarray(0, IV_BYTES))
      cipher.setAuthTag(bytes.subarray(IV_BYTES, IV_BYTES + TAG_BYTES))
      const opened = [cipher.update(bytes.subarray(IV_BYTES + TAG_BYTES)), cipher.final()]
      const pending: Pending = JSON.parse(Buffer.concat(opened).toString())
      return pending.until > now ? pending : undefined
    } catch {
      return undefined
    }
  }
}
