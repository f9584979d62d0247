// Tables are sorted by a click on the head of a column: numbers from the highest, words from A.
const number = (cell) => parseFloat(cell.textContent.replace(/^[^\d+-]+/, ""));
for (const table of document.querySelectorAll("table")) {
  const body = table.tBodies[0];
  if (body.rows.length < 3) continue;
  [...table.tHead.rows[0].cells].forEach((head, column) => {
    const button = document.createElement("button");
    button.append(...head.childNodes);
    head.append(button);
    button.addEventListener("click", () => {
      const rows = [...body.rows].map((row) => [row.cells[column], row]);
      const numeric = rows.some(([cell]) => !isNaN(number(cell))) && head.style.textAlign === "right";
      const before = head.ariaSort;
      const down = before ? before === "ascending" : numeric;
      rows.sort(([a], [b]) => {
        if (!numeric) return a.textContent.localeCompare(b.textContent) * (down ? -1 : 1);
        const [x, y] = [number(a), number(b)];
        if (isNaN(x) || isNaN(y)) return isNaN(x) - isNaN(y); // what is not known comes last
        return down ? y - x : x - y;
      });
      for (const other of table.tHead.rows[0].cells) other.ariaSort = null;
      head.ariaSort = down ? "descending" : "ascending";
      body.append(...rows.map(([, row]) => row));
    });
  });
}
