/** The largest count of AMQP's `int32`, in which attempts and their maximum travel (seed 002 §6.2). */
export const MAX_INT32 = 2 ** 31 - 1
