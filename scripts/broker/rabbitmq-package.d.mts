/** The folder with RabbitMQ's own scripts, or undefined when it is not installed. */
export function findRabbitmqSbin(): string | undefined
export function findEpmd(): string | undefined
export function findErlCall(): string | undefined
