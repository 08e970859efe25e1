export const testVariables: {
  readonly sbin: string
  readonly amqpUrl: string
  readonly managementPort: string
  readonly python: string
}
export const DEBIAN_PYTHON: string
