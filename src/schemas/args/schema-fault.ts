/** What is wrong with a JSON Schema that a client wants to register, in one clause. */
export class SchemaFault extends Error {
  override readonly name = 'SchemaFault'
}
