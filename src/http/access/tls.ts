/** PEM files for HTTPS and client certificates, read and checked before the server starts. */
import { X509Certificate } from 'node:crypto'
import { readFile } from 'node:fs/promises'
import { createSecureContext } from 'node:tls'
import { messageOf } from '../../errors.ts'

/** Paths of PEM files. */
export interface TlsFiles {
  readonly cert: string
  readonly key: string
  /** The CA that signs the clients' certificates. Absent: clients need none. */
  readonly ca?: string
}

/** The files themselves, as `node:tls` takes them. */
export interface TlsMaterial {
  readonly cert: Buffer
  readonly key: Buffer
  readonly ca?: Buffer
}

/** Undefined (no TLS) when all are empty. Adds a line when the certificate or its key is missing. */
export function parseTlsFiles(
  { cert, key, ca }: Record<'cert' | 'key' | 'ca', string>,
  mistakes: string[],
): TlsFiles | undefined {
  if (cert === '' && key === '' && ca === '') return undefined
  if (cert === '' || key === '') {
    mistakes.push('TLS needs both OJS_TLS_CERT and OJS_TLS_KEY (paths of PEM files)')
  }
  return { cert, key, ...(ca !== '' && { ca }) }
}

/** Matches a truncated certificate too, so that it is noticed. */
const CERTIFICATE = /-----BEGIN (?:X509 |TRUSTED )?CERTIFICATE-----(?:(?!-----BEGIN).)*/gs

/** A key with a passphrase, in the newer or older PEM form. OpenSSL would only say `bad decrypt`. */
const WITH_PASSPHRASE = /^(?:-----BEGIN ENCRYPTED|Proc-Type: 4,ENCRYPTED)/m

/** Reads the files. Throws an error with the name of the variable whose file cannot be read or used. */
export async function readTls(files: TlsFiles): Promise<TlsMaterial> {
  const material = {
    cert: await read('OJS_TLS_CERT', files.cert),
    key: await read('OJS_TLS_KEY', files.key),
    ...(files.ca !== undefined && { ca: await read('OJS_TLS_CA', files.ca) }),
  }
  if (WITH_PASSPHRASE.test(material.key.toString('latin1'))) {
    throw new Error(
      'OJS_TLS_KEY cannot be used: it has a passphrase, which is not supported ' +
        '(`openssl pkey -in KEY -out PLAIN` removes it)',
    )
  }
  try {
    createSecureContext(material)
    if (material.ca !== undefined) requireCertificates(material.ca)
  } catch (cause) {
    throw new Error(`OJS_TLS_CERT, OJS_TLS_KEY or OJS_TLS_CA cannot be used: ${messageOf(cause)}`, {
      cause,
    })
  }
  return material
}

/**
 * Throws unless all certificates can be read and there is at least one. OpenSSL silently skips what it cannot
 * read in a `ca` file; if nothing is left, no client gets in.
 */
function requireCertificates(pem: Buffer): void {
  const found = pem.toString('latin1').match(CERTIFICATE) ?? []
  if (found.length === 0) throw new Error('the file of OJS_TLS_CA holds no PEM certificate')
  for (const text of found) new X509Certificate(text)
}

async function read(name: string, path: string): Promise<Buffer> {
  try {
    return await readFile(path)
  } catch (cause) {
    throw new Error(`${name} cannot be read: ${messageOf(cause)}`, { cause })
  }
}
