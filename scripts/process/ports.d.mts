/** On 127.0.0.1, below those that the kernel gives to connections and to listeners on port 0. */
export function freePort(): Promise<number>
