import { execFileSync } from 'node:child_process'
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'

export interface Certificate {
  readonly certPath: string
  readonly keyPath: string
  readonly cert: Buffer
  readonly key: Buffer
}

const EC: readonly string[] = ['ec', '-pkeyopt', 'ec_paramgen_curve:prime256v1']
export const RSA: readonly string[] = ['rsa:2048']

/** A certificate authority of the test's own; Node.js can read certificates, but not sign any. */
export class Authority {
  readonly #dir = mkdtempSync(join(tmpdir(), 'ojs-ca-'))
  readonly ca: Certificate

  constructor() {
    this.ca = this.#create('ca', ['-x509', '-days', '2'])
  }

  /** Issues a certificate for `localhost` and 127.0.0.1, as server and client. With 0 `days` it expires now. */
  issue(name: string, days = 2, algorithm: readonly string[] = EC): Certificate {
    const extensions = join(this.#dir, `${name}.ext`)
    const { certPath, keyPath } = this.ca
    writeFileSync(
      extensions,
      'subjectAltName=DNS:localhost,IP:127.0.0.1\nextendedKeyUsage=serverAuth,clientAuth\n',
    )
    const request = this.#create(name, [], algorithm)
    const signed = join(this.#dir, `${name}.signed.pem`)
    const ca = ['-CA', certPath, '-CAkey', keyPath, '-CAcreateserial']
    openssl(
      ['x509', '-req', '-in', request.certPath, ...ca].concat([
        '-days',
        String(days),
        '-extfile',
        extensions,
        '-out',
        signed,
      ]),
    )
    return { ...request, certPath: signed, cert: readFileSync(signed) }
  }

  remove(): void {
    rmSync(this.#dir, { recursive: true, force: true })
  }

  #create(name: string, options: string[], algorithm = EC): Certificate {
    const certPath = join(this.#dir, `${name}.pem`)
    const keyPath = join(this.#dir, `${name}.key`)
    const newKey = ['-newkey', ...algorithm, '-nodes']
    openssl(
      ['req', ...options, ...newKey].concat([
        '-keyout',
        keyPath,
        '-out',
        certPath,
        '-subj',
        `/CN=${name}`,
      ]),
    )
    return { certPath, keyPath, cert: readFileSync(certPath), key: readFileSync(keyPath) }
  }
}

function openssl(args: string[]): void {
  execFileSync('openssl', args, { stdio: ['ignore', 'ignore', 'pipe'] })
}
