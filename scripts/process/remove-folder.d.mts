export function removeFolder(path: string, withinMs?: number): Promise<void>
