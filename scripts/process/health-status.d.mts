export function healthStatus(
  url: string,
  env?: Readonly<Record<string, string | undefined>>,
): Promise<number | undefined>
