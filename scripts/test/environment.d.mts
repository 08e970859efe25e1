export const testVariables: {
  readonly sbin: string
  readonly amqpUrl: string
  readonly managementPort: string
  readonly python: string
}
export const DEBIAN_PYTHON: string
export const DEBIAN_GO: string
export const DEBIAN_GOPATH: string
