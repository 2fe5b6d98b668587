export function Loading({ what }: { what: string }) {
  return (
    <div className="loading" role="status">
      Loading {what}…
    </div>
  )
}
