// Shows the token once, for a cookie that stands for it.
const form = document.getElementById("show");
const field = document.getElementById("token");
const verdict = document.getElementById("verdict");

const sentence = (text) => `${text[0].toUpperCase()}${text.slice(1).replace(/\.$/, "")}.`;

form.addEventListener("submit", async (event) => {
  event.preventDefault();
  verdict.textContent = "";
  try {
    const answer = await fetch("api/session", { headers: { Authorization: `Bearer ${field.value}` } });
    if (answer.ok) {
      location.reload();
      return;
    }
    const data = await answer.json().catch(() => ({}));
    verdict.textContent = sentence(data.error ?? `The page answered ${answer.status}.`);
  } catch {
    verdict.textContent = "The page cannot be reached.";
  }
  field.select();
});
field.focus();
